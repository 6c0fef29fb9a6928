"""One Spark session for all tests that need one: two cores, quiet, and nothing open to outside."""

import os
import sys

import pytest

from java_hudi import java_home

PYSPARKS_OWN = (
    "ignore::ResourceWarning",  # Py4J leaves its sockets to the garbage collector
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:distutils Version classes:DeprecationWarning",
    "ignore:is_datetime64tz_dtype:DeprecationWarning",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("spark"):
            for rule in PYSPARKS_OWN:
                item.add_marker(pytest.mark.filterwarnings(rule))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A plain session without Hudi's bundle: what a user of the library has."""
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    logging = scratch / "log4j2.properties"
    logging.write_text("rootLogger.level = off\n")
    surroundings = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": (
            f"-Duser.timezone=UTC -Dlog4j2.configurationFile={logging} -XX:+UseSerialGC "
            f"-Dderby.system.home={scratch}"
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings.items():
            patch.setenv(name, value)
        patch.delenv("SPARK_HOME", raising=False)
        assert "PYSPARK_GATEWAY_PORT" not in os.environ
        builder = SparkSession.builder.master("local[2]").appName("lakehand-tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()
