package org.apache.hudi.aws.transaction.lock;

import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.client.builder.AwsClientBuilder;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.AmazonS3ClientBuilder;
import com.amazonaws.services.s3.model.AmazonS3Exception;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.PutObjectRequest;
import com.amazonaws.services.s3.model.S3Object;
import java.io.ByteArrayInputStream;
import java.net.URI;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;
import org.apache.spark.SparkContext;

/**
 * The client that Hudi's storage lock asks for by this name on S3, for tests.
 *
 * Hudi's own comes with hudi-aws, which cannot be had here. This one makes the same requests
 * with the SDK of the S3A file system, and takes the server and the credentials from S3A's settings.
 * Janino compiles it inside the JVM (jvm_s3.py): no lambdas, no generics.
 */
public class S3StorageLockClient implements StorageLockClient {
    private final AmazonS3 s3;
    private final String bucket;
    private final String key;

    public S3StorageLockClient(String owner, String uri, Properties ignored) throws Exception {
        Configuration settings = SparkContext.getOrCreate().hadoopConfiguration();
        URI record = new URI(uri);
        bucket = record.getHost();
        key = record.getPath().substring(1);
        AmazonS3ClientBuilder builder = AmazonS3ClientBuilder.standard();
        builder.setEndpointConfiguration(new AwsClientBuilder.EndpointConfiguration(
            settings.get("fs.s3a.endpoint"), settings.get("fs.s3a.endpoint.region")));
        builder.setCredentials(new AWSStaticCredentialsProvider(new BasicAWSCredentials(
            settings.get("fs.s3a.access.key"), settings.get("fs.s3a.secret.key"))));
        builder.setPathStyleAccessEnabled(Boolean.TRUE);
        s3 = (AmazonS3) builder.build();
    }

    public Pair readCurrentLockFile() {
        try {
            S3Object found = s3.getObject(bucket, key);
            try {
                return Pair.of(LockGetResult.SUCCESS, Option.of(StorageLockFile.createFromStream(
                    found.getObjectContent(), found.getObjectMetadata().getETag())));
            } finally {
                found.close();
            }
        } catch (AmazonS3Exception refusal) {
            int status = refusal.getStatusCode();
            if (status == 404) {
                return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
            }
            if (status == 409 || status >= 500) {
                return Pair.of(LockGetResult.UNKNOWN_ERROR, Option.empty());
            }
            throw refusal;
        } catch (java.io.IOException broken) {
            throw new RuntimeException(broken);
        }
    }

    public Pair tryUpsertLockFile(StorageLockData data, Option previous) {
        byte[] content = StorageLockFile.toByteArray(data);
        ObjectMetadata metadata = new ObjectMetadata();
        metadata.setContentLength((long) content.length);
        PutObjectRequest put =
            new PutObjectRequest(bucket, key, new ByteArrayInputStream(content), metadata);
        if (previous.isPresent()) {
            String version = ((StorageLockFile) previous.get()).getVersionId();
            put.putCustomRequestHeader("If-Match", "\"" + version + "\"");
        } else {
            put.putCustomRequestHeader("If-None-Match", "*");
        }
        try {
            String version = s3.putObject(put).getETag();
            return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, version)));
        } catch (AmazonS3Exception refusal) {
            return Pair.of(
                refusal.getStatusCode() == 412
                    ? LockUpsertResult.ACQUIRED_BY_OTHERS
                    : LockUpsertResult.UNKNOWN_ERROR,
                Option.empty());
        }
    }

    /** Hudi's audit of its locks asks whether it is switched on: it is not. */
    public Option readObject(String uri, boolean looksFirst) {
        return Option.empty();
    }

    public boolean writeObject(String uri, String content) {
        return false;
    }

    public void close() {
        s3.shutdown();
    }
}
