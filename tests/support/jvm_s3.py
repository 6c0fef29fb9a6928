"""What Java needs on an S3 server, done inside the JVM's child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jvm_worker import Session


def install_class(session: Session, *, source: str) -> None:
    """Compile a class by Spark's own Janino and put it beside Hudi's, which looks it up by name."""
    jvm = session.spark._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    folder = session.scratch / "classes"
    folder.mkdir(exist_ok=True)
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setDestinationDirectory(jvm.java.io.File(str(folder)), False)
    sources = session.spark.sparkContext._gateway.new_array(jvm.java.io.File, 1)
    sources[0] = jvm.java.io.File(source)
    compiler.compile(sources)
    loader.addURL(jvm.java.io.File(f"{folder}/").toURI().toURL())
