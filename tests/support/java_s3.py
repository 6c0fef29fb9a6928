"""Apache Hudi on an S3 server: Hadoop's S3A file system, and Hudi's storage lock.

S3A comes with Spark's Hadoop version and the four parts of the AWS SDK that it loads (5 MB, where
the SDK's bundle has 280). The lock's provider is Hudi's; its client, which Hudi ships in hudi-aws,
is `S3StorageLockClient.java`, under the name by which Hudi asks for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from java_hudi import JavaHudi

if TYPE_CHECKING:
    from s3_server import S3Server

SDK = "1.12.262"
S3A = (
    "org.apache.hadoop:hadoop-aws:3.3.4",
    *(f"com.amazonaws:aws-java-sdk-{part}:{SDK}" for part in ("core", "s3", "dynamodb")),
)
LOCK_CLIENT = Path(__file__).with_name("S3StorageLockClient.java")


def java_on(server: S3Server) -> JavaHudi:
    """Return a started JVM that knows tables by s3a://bucket/folder."""
    s3a = {
        "endpoint": server.endpoint,
        "endpoint.region": str(server.storage_options["region"]),
        "access.key": server.key,
        "secret.key": server.secret,
        "path.style.access": "true",
        # S3A's default deletes the markers of all parents after each write: on versitygw, where
        # they are folders, the first write did not come back within minutes.
        "directory.marker.retention": "keep",
        # Hudi 1.2.0 leaves a stream open for each Parquet block of a log that it reads, whoever
        # wrote it (Avro: none), and each stream keeps a connection of the pool (by default 96).
        "connection.maximum": "2000",
    }
    settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}
    settings["spark.jars.excludes"] = "com.amazonaws:aws-java-sdk-bundle"
    java = JavaHudi("1.2.0", settings=settings, packages=S3A)
    try:
        java.run("jvm_s3:install_class", source=str(LOCK_CLIENT))
    except BaseException:
        java.close()
        raise
    return java
