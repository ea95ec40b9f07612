"""The files in ``deploy/`` and the commands of docs/deploying.md."""

from __future__ import annotations

import configparser
import json
import re
import subprocess

from support import REPOSITORY


def test_prefect_yaml_says_what_deploy_does() -> None:
    import yaml

    from flows.commands import deploy as deploying
    from flows.server import pool

    (entry,) = yaml.safe_load((REPOSITORY / "deploy/prefect.yaml").read_text())["deployments"]
    assert entry["entrypoint"] == pool.ENTRYPOINTS[0]
    assert tuple(entry["tags"]) == deploying.TAGS
    assert entry["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert entry["schedules"][0]["timezone"]
    assert entry["work_pool"] == {"name": "local-proc"}
    template = json.loads((REPOSITORY / "deploy/base-job-template.json").read_text())
    assert template == pool.BASE_JOB_TEMPLATE


def test_units_and_containers_run_without_privileges() -> None:
    import yaml

    for name in ("server", "worker"):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read(REPOSITORY / f"deploy/systemd/reticent-{name}.service")
        service = unit["Service"]
        assert service["User"] == "reticent"
        assert service["EnvironmentFile"]
        assert service["NoNewPrivileges"] == "yes"
        assert service["ProtectSystem"] == "strict"
        assert (service["IPAddressDeny"], service["IPAddressAllow"]) == ("any", "localhost")
    dockerfile = (REPOSITORY / "deploy/Dockerfile").read_text()
    assert dockerfile.count("\nFROM ") == 2
    assert "--require-hashes" in dockerfile
    assert re.search(r"^USER (?!0|root)", dockerfile.split("\nFROM ")[-1], re.MULTILINE)
    compose = yaml.safe_load((REPOSITORY / "deploy/compose.yaml").read_text())
    assert compose["services"].keys() == {"postgres", "server", "worker", "deploy"}
    assert compose["services"]["server"]["ports"] == ["127.0.0.1:4200:4200"]
    assert compose["services"]["worker"]["networks"] == ["inside"]
    assert compose["networks"]["inside"]["internal"] is True
    for name in ("server", "worker"):
        assert compose["services"][name]["read_only"] is True
        assert compose["services"][name]["cap_drop"] == ["ALL"]


def test_compose_and_systemd_start_nothing_without_a_password() -> None:
    """Guards: a server that forgets its password is open; a password on a command line is in every process list."""
    import yaml

    services = yaml.safe_load((REPOSITORY / "deploy/compose.yaml").read_text())["services"]
    server = services["server"]["environment"]
    assert server["PREFECT_SERVER_API_AUTH_STRING"].startswith("${PREFECT_SERVER_API_AUTH_STRING:?")
    assert server["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == "http://127.0.0.1:4200"
    assert server["PREFECT_SERVER_CSRF_PROTECTION_ENABLED"] == "true"
    for name in ("worker", "deploy"):
        assert services[name]["environment"]["PREFECT_API_AUTH_STRING"].startswith("${PREFECT_API_AUTH_STRING:?")
    assert services["worker"]["environment"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
    assert not any("AUTH" in str(service.get("command", "")) for service in services.values())

    unit = (REPOSITORY / "deploy/systemd/reticent-server.service").read_text()
    (check,) = re.findall(r"^ExecStartPre=/bin/sh -c '(.*)'$", unit, re.MULTILINE)
    check = check.replace("$$", "$")  # systemd's own escape; a single dollar would put the value on the command line
    for password, code in (("reticent:x", 0), ("", 1)):
        done = subprocess.run(["sh", "-c", check], env={"PREFECT_SERVER_API_AUTH_STRING": password}, check=False)
        assert done.returncode == code
    worker = (REPOSITORY / "deploy/systemd/reticent-worker.service").read_text()
    assert "ExecStartPre=/opt/reticent/bin/python -m flows.commands.deploy\n" in worker
    for text in (unit, worker):
        commands = re.findall(r"^Exec\w+=(.*)$", text, re.MULTILINE)
        assert not any(re.search(r"(?<!\$)\$\{?PREFECT", command) for command in commands)
    assert "AUTH_STRING=" not in (REPOSITORY / "deploy/systemd/reticent.env").read_text()


def test_the_proxy_example_serves_one_name_over_tls() -> None:
    text = (REPOSITORY / "deploy/Caddyfile").read_text()
    assert "\n{$RETICENT_SITE} {\n" in text
    assert "reverse_proxy {$RETICENT_UPSTREAM:127.0.0.1:4200}" in text
    assert "http://" not in text.replace("http://127.0.0.1", "")


def test_the_documented_commands_are_few_and_those_that_these_tests_start() -> None:
    page = (REPOSITORY / "docs/deploying.md").read_text()
    block = page.split("```sh\n", 1)[1].split("```", 1)[0]
    commands = [line.split("#")[0].strip() for line in block.splitlines()]
    assert commands == [
        "reticent deploy --init-auth ~/prefect.env",
        "set -a; . ~/prefect.env; set +a",
        "prefect server start",
        'reticent deploy my-project/reticent.toml --cron "0 2 * * *" --timezone Europe/Berlin',
        "prefect worker start --pool local-proc --type process",
    ]
