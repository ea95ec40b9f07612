"""Settings that belong to no stage: ``[run]``, ``[store]``, ``[runtime]`` and ``[sweep]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from pipelines.config import StageConfig


class RunConfig(StageConfig):
    """Settings of every stage."""

    seed: int = Field(0, ge=0, description="Seed of everything that may be public: samples, model initialisation.")


class StoreConfig(StageConfig):
    """The place of artifacts. Relative paths start at the folder of the settings file."""

    root: str = Field("reticent-store", description="Folder that holds both roots, unless they are given.")
    private_root: str | None = Field(
        None, description="Folder of everything that may hold secrets. Default: ROOT/private."
    )
    public_root: str | None = Field(
        None, description="Folder of the public shard, the model and the public report. Default: ROOT/public."
    )
    secret_file: str | None = Field(
        None, description="File of a hexadecimal secret that stores share, so that their keys and doc ids agree."
    )
    mirror_url: str | None = Field(
        None,
        description="URL of object storage to which each run copies what is published (s3://BUCKET/FOLDER, gs://…, "
        "abfs://…; `docs/deploying.md`).",
    )
    key_file: str | None = Field(
        None,
        description="File of the store key, 64 hexadecimal digits, which encrypts the private root "
        "(`docs/encryption.md`).",
    )
    key_command: tuple[str, ...] | None = Field(
        None, min_length=1, description="Instead of key_file: a program with its arguments that prints the store key."
    )
    key_env: str | None = Field(
        None,
        min_length=1,
        description="Instead of key_file: the name of an environment variable that holds the store key.",
    )
    require_encrypted_fs: bool = Field(
        False,
        description="true refuses a private root that is not known to lie on an encrypted disk (`docs/encryption.md`).",
    )

    @field_validator("mirror_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if not parts.scheme or not (parts.netloc or parts.path.strip("/")):
            raise ValueError("must be a URL such as s3://bucket/folder")
        if parts.password is not None or parts.query:
            raise ValueError(
                "must hold no password or parameters; give them as the storage's own tools ask for them (environment, "
                "profile, role of the machine)"
            )
        return url

    @model_validator(mode="after")
    def _one_key(self) -> StoreConfig:
        if sum(source is not None for source in (self.key_file, self.key_command, self.key_env)) > 1:
            raise ValueError("name one of key_file, key_command and key_env")
        return self


class RuntimeConfig(StageConfig):
    """Speed and memory only. No field is part of an artifact's key."""

    workers: int = Field(1, ge=1, le=256, description="Worker processes for partitions.")
    executor: Literal["local", "dask", "ray"] = Field(
        "local",
        description="Place where partitions are built: processes of this machine, or workers of Dask or Ray "
        "(`docs/scale.md`). Bytes and keys are the same.",
    )
    executor_address: str | None = Field(
        None,
        min_length=1,
        description="Scheduler of Dask (tls://HOST:PORT) or head node of Ray (HOST:PORT). Default: a cluster of "
        "`workers` processes on this machine, for the run alone.",
    )
    executor_wait_seconds: int = Field(
        120,
        ge=1,
        description="Longest wait for Dask's scheduler or Ray's head node, for a worker, and for the machines of a "
        "training, in seconds.",
    )
    partition_timeout_seconds: int = Field(
        21_600,
        ge=1,
        description="Longest time of a partition on Dask or Ray, in seconds. A partition that takes "
        "longer fails the run, and its worker is ended.",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Device on which models train.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="Precision of forward and backward passes; weights, norms, sums and noise are float32. auto: "
        "bfloat16 on a GPU.",
    )
    num_processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that train one model together on this machine, one for each GPU (the first ones that "
        "CUDA_VISIBLE_DEVICES shows), or sharing the CPU. Partitions are prepared by workers.",
    )
    num_machines: int = Field(
        1,
        ge=1,
        le=64,
        description="Machines that train one model together, this one among them; the others run `reticent join` "
        "(`docs/scale.md`).",
    )
    private_interface: str | None = Field(
        None,
        min_length=1,
        max_length=15,
        description="Network interface of this machine that you declare to be private: nobody else reads it. Machines "
        "that train together send sums of private records over it unencrypted, and claims say so. Needed for "
        "num_machines.",
    )
    private_network: bool = Field(
        False,
        description="Declaration that nobody else reaches or reads the network of executor_address. Without it, "
        "Dask's tcp:// and Ray without a token are refused: whoever reaches them reads the private root.",
    )
    microbatch_size: int = Field(16, ge=1, description="Examples that a training step holds in memory at once.")
    verify: Literal["full", "size"] = Field(
        "full", description="Check of cached files before use: their content, or their size alone."
    )

    @model_validator(mode="after")
    def _address_of_an_engine(self) -> RuntimeConfig:
        if self.executor == "local" and self.executor_address is not None:
            raise ValueError("executor_address is for executor = 'dask' or 'ray'")
        return self

    @model_validator(mode="after")
    def _network_of_an_engine(self) -> RuntimeConfig:
        address = self.executor_address or "tls://"
        if self.executor == "dask" and not self.private_network and not address.startswith(("tls://", "inproc://")):
            raise ValueError(
                "executor_address is not tls://, and Dask then checks no identity: whoever reaches the scheduler reads "
                "the private root through its workers, other users of this machine included. Use tls:// with "
                "certificates (docs/scale.md), or declare with private_network = true that only you reach that network"
            )
        return self

    @model_validator(mode="after")
    def _interface_of_a_training(self) -> RuntimeConfig:
        if self.num_machines > 1 and self.private_interface is None:
            raise ValueError(
                "num_machines needs private_interface, the network interface that only the machines of a training can "
                "read: sums of private records cross it unencrypted. WireGuard makes one (docs/scale.md)"
            )
        return self


class SweepConfig(StageConfig):
    """The trainings of ``reticent compare``. No run reads it."""

    methods: tuple[str, ...] = Field((), description="Training methods to compare; jft/light_noise names a variant.")
    repetitions: int = Field(1, ge=1, le=1_000, description="Trainings of each method, with other initial weights.")


WITHDRAWN: Mapping[tuple[str, str], str] = {
    ("runtime", "train_address"): "is gone: machines find each other in the private root. Remove it, and set "
    "runtime.private_interface to the network interface that only they can read (docs/scale.md)"
}
"""Settings of earlier versions, each with what to do instead."""

GENERAL_TABLES: Mapping[str, type[StageConfig]] = {
    "run": RunConfig,
    "store": StoreConfig,
    "runtime": RuntimeConfig,
    "sweep": SweepConfig,
}
