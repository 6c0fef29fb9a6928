"""kube-apiserver and etcd, built from their Go modules once per version.

Neither can be had by ``go install``: their modules hold replace directives, which Go refuses
there. So a module of our own requires each at its pinned version and repeats the replacements.
Built binaries lie in ``$LAKEHAND_CACHE/bin``; two builders take turns behind a file lock, and a
finished binary appears by a rename. Without Go, ``NoGo`` says so.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from s3_server import NoGo, cache_folder

BUILD_SECONDS = 1800
GO_VERSION = "1.26.0"

STAGING_MODULES = """
api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider
cluster-bootstrap code-generator component-base component-helpers controller-manager cri-api
cri-client cri-streaming csi-translation-lib dynamic-resource-allocation endpointslice externaljwt
kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics
mount-utils pod-security-admission sample-apiserver sample-cli-plugin sample-controller streaming
"""
"""The parts of Kubernetes that are modules of their own, released as v0.X.Y beside v1.X.Y."""


@dataclass(frozen=True)
class GoProgram:
    """A main package of a module that must be built from inside another module."""

    name: str
    package: str
    module: str
    version: str
    replacements: tuple[str, ...] = ()
    linker_settings: tuple[str, ...] = ()
    source: Path | None = None
    """A main package of our own that needs the module, instead of one inside it."""

    @property
    def file_name(self) -> str:
        """The binary's name, which says what it was built from."""
        if self.source is None:
            return f"{self.name}-{self.version}"
        digest = hashlib.sha256(self.source.read_bytes()).hexdigest()[:12]
        return f"{self.name}-{self.version}-{digest}"

    def go_mod(self) -> str:
        """Return the go.mod of a module that needs nothing but this program."""
        lines = ["module build", f"go {GO_VERSION}", f"require {self.module} {self.version}"]
        return "\n".join([*lines, *(f"replace {each}" for each in self.replacements)]) + "\n"


def _kubernetes(name: str, version: str) -> GoProgram:
    major, minor, patch = version.removeprefix("v").split(".")
    # Unset, the server says v0.0.0-master, and clients that compare versions stumble.
    stamps = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return GoProgram(
        name,
        f"k8s.io/kubernetes/cmd/{name}",
        "k8s.io/kubernetes",
        version,
        tuple(
            f"k8s.io/{each} => k8s.io/{each} v0.{minor}.{patch}" for each in STAGING_MODULES.split()
        ),
        tuple(f"{place}.{key}={value}" for place in places for key, value in stamps.items()),
    )


KUBE_APISERVER = _kubernetes("kube-apiserver", "v1.36.4")
ETCD = GoProgram(
    "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", version="v3.6.14"
)
ELECTOR_SOURCE = Path(__file__).with_name("api_elector.go")
ELECTOR = GoProgram(
    "client-go-elector",
    ".",
    "k8s.io/client-go",
    version="v0.36.4",
    source=ELECTOR_SOURCE,
)
PROGRAMS = (ETCD, KUBE_APISERVER, ELECTOR)


def binary(program: GoProgram) -> Path:
    """Return the built program, building it first if this version is not there yet."""
    folder = cache_folder() / "bin"
    path = folder / program.file_name
    if path.exists():
        return path
    if shutil.which("go") is None:
        raise NoGo(f"NO-GO: no Go tool-chain to build {program.name} {program.version} with")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs build it once
        if not path.exists():
            _build(program, path)
    return path


def _build(program: GoProgram, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        (Path(scratch) / "go.mod").write_text(program.go_mod())
        if program.source is not None:
            shutil.copy(program.source, Path(scratch) / "main.go")
        built = Path(scratch) / program.name
        settings = " ".join(["-s", "-w", *(f"-X {each}" for each in program.linker_settings)])
        done = subprocess.run(
            [
                "nice",
                "go",
                "build",
                "-trimpath",
                "-ldflags",
                settings,
                "-o",
                built,
                program.package,
            ],
            cwd=scratch,
            env={
                **os.environ,
                "CGO_ENABLED": "0",
                "GOFLAGS": "-mod=mod -buildvcs=false",
                "GOWORK": "off",
            },
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"building {program.name} {program.version} failed:\n{done.stderr}")
        built.rename(path)
