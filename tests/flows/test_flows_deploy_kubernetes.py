"""The manifests in ``deploy/kubernetes/``: valid, without privileges, and nothing that the other deployments lack."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "kubernetes"


def documents() -> list[dict[str, Any]]:
    files = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
    return [document for path in files for document in yaml.safe_load_all(path.read_text())]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The template of every pod, by the name of what makes it."""
    for document in documents():
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield document["metadata"]["name"], spec["template"]


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {d["metadata"]["name"]: d for d in documents() if d["kind"] == kind}


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env", ())}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("kubernetes_validate") is None,
    reason="kubernetes-validate is not installed: pip install --no-deps -r requirements-slow.lock, as .ci/run does",
)
@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_manifests_have_the_schemas_of_kubernetes(version: str) -> None:
    import kubernetes_validate

    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)
    broken = next(iter(named("Deployment").values())) | {"spec": {"replica": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_every_pod_runs_without_privileges() -> None:
    """What the level `restricted` of pod security asks for, and a file system that cannot be written."""
    assert {name for name, _ in pods()} == {"server", "worker", "nightly"}
    for name, pod in pods():
        spec = pod["spec"]
        user = spec["securityContext"]
        assert user["runAsNonRoot"] is True, name
        assert user["runAsUser"] == user["runAsGroup"] == user["fsGroup"] == 10001  # the user of deploy/Dockerfile
        assert user["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False  # PREFECT_… of a service would be taken for a setting
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert all(volume.keys() & {"persistentVolumeClaim", "emptyDir"} for volume in spec["volumes"])
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
        assert not any("AUTH" in argument for argument in container.get("args", ()))


def test_names_that_manifests_use_are_there() -> None:
    claims = named("PersistentVolumeClaim")
    for _, pod in pods():
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for volume in volumes.values():
            assert volume.get("persistentVolumeClaim", {"claimName": "project"})["claimName"] in claims
        (container,) = pod["spec"]["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes.keys()
    labels = {pod["metadata"]["labels"]["app"] for _, pod in pods()}
    for document in named("Deployment").values():
        assert document["spec"]["selector"]["matchLabels"] == document["spec"]["template"]["metadata"]["labels"]
        assert (document["spec"]["replicas"], document["spec"]["strategy"]) == (1, {"type": "Recreate"})
    (service,) = named("Service").values()
    assert service["spec"]["selector"]["app"] in labels
    worker = dict(pods())["worker"]["spec"]["containers"][0]
    assert variables(worker)["PREFECT_API_URL"] == f"http://{service['metadata']['name']}:4200/api"
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    files = {path.name for path in FOLDER.glob("*.yaml")}
    assert files - set(kustomization["resources"]) == {"kustomization.yaml", "cronjob.yaml"}
    assert set(kustomization["resources"]) <= files


def test_the_server_asks_for_a_password_and_only_the_worker_reaches_it() -> None:
    made = dict(pods())
    for name in ("server", "worker"):
        (container,) = made[name]["spec"]["containers"]
        key = f"PREFECT_{'SERVER_' if name == 'server' else ''}API_AUTH_STRING"
        assert variables(container)[key] == {"secretKeyRef": {"name": "prefect", "key": key}}  # no start without it
    server = variables(made["server"]["spec"]["containers"][0])
    assert server["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:4200"
    assert server["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] == "true"
    assert named("Service")["server"]["spec"].get("type", "ClusterIP") == "ClusterIP"
    policies = named("NetworkPolicy")
    nothing = policies.pop("nothing")["spec"]
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert policies.keys() == {"worker-to-server", "server-from-worker"}
    (ingress,) = policies["server-from-worker"]["spec"]["ingress"]
    assert ingress["from"] == [{"podSelector": {"matchLabels": {"app": "reticent-worker"}}}]
    egress = policies["worker-to-server"]["spec"]["egress"]
    assert [sorted(port["port"] for port in rule["ports"]) for rule in egress] == [[4200], [53, 53]]
    assert all("ipBlock" not in peer for rule in egress for peer in rule["to"])
