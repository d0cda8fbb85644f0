"""The chart and the kustomization: what they make is what Kubernetes and the operator take."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import helm_python
import jsonschema
import kubernetes_validate
import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML
from support import ROOT, require

from fabricmon.cli import main

if TYPE_CHECKING:
    from pathlib import Path

CHART = ROOT / "deploy" / "helm" / "fabricmon"
KUSTOMIZATION = ROOT / "deploy" / "kubernetes"
RELEASES = ("1.27", "1.31", kubernetes_validate.latest_version())
EXAMPLE = YAML(typ="safe").load((ROOT / "deploy/examples/infiniband-pod.yaml").read_text())
FULL = {
    "config": EXAMPLE,
    "secretName": "fabricmon",
    "webConfigKey": "web.yml",
    "extraArgs": ["--web.enable-lifecycle"],
    "imagePullSecrets": [{"name": "registry"}],
    "persistence": {"enabled": True, "storageClass": "fast", "size": "20Gi"},
    "capabilities": ["IPC_LOCK"],
    "extraVolumes": [{"name": "umad", "hostPath": {"path": "/dev/infiniband"}}],
    "extraVolumeMounts": [{"name": "umad", "mountPath": "/dev/infiniband"}],
    "nodeSelector": {"fabric": "pod1"},
    "tolerations": [{"key": "fabric", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    "serviceMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "params": {"collect[]": ["traffic", "pause"]},
    },
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
}
"""Every switch of the chart turned on."""
_DURATION = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"}
_WORDS = {"type": "object", "additionalProperties": {"type": "string"}}
_RULE = {
    "type": "object",
    "required": ["expr"],
    "additionalProperties": False,
    "properties": {
        "alert": {"type": "string"},
        "record": {"type": "string"},
        "expr": {"type": ["string", "integer"]},
        "for": _DURATION,
        "labels": _WORDS,
        "annotations": _WORDS,
    },
    "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
}
OPERATOR = {
    "ServiceMonitor": {
        "type": "object",
        "required": ["endpoints", "selector"],
        "additionalProperties": False,
        "properties": {
            "jobLabel": {"type": "string"},
            "selector": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"matchLabels": _WORDS},
            },
            "endpoints": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "port": {"type": "string"},
                        "interval": _DURATION,
                        "params": {
                            "type": "object",
                            "additionalProperties": {"type": "array", "items": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
    "PrometheusRule": {
        "type": "object",
        "required": ["groups"],
        "additionalProperties": False,
        "properties": {
            "groups": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "additionalProperties": False,
                    "properties": {
                        "name": {"type": "string", "minLength": 1},
                        "interval": _DURATION,
                        "rules": {"type": "array", "items": _RULE},
                    },
                },
            }
        },
    },
}
"""What the Prometheus operator's definitions allow of what is used here."""
PLAIN = ["Deployment", "NetworkPolicy", "Service"]


def _documents(text: str) -> list[dict[str, Any]]:
    return [one for one in YAML(typ="safe").load_all(text) if one]


def _rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """What Helm itself makes of the chart."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values, name="mon", namespace="monitoring")
    return [
        document
        for name, text in files.items()
        if name.endswith(".yaml")
        for document in _documents(text)
    ]


def _kustomized() -> list[dict[str, Any]]:
    done = subprocess.run(
        [require("kubectl"), "kustomize", KUSTOMIZATION], capture_output=True, text=True, check=True
    )
    return _documents(done.stdout)


def _check(document: dict[str, Any]) -> None:
    """Strictly: a field that nobody knows is a mistake, too."""
    if document["apiVersion"] == "monitoring.coreos.com/v1":
        jsonschema.validate(document["spec"], OPERATOR[document["kind"]])
        return
    for release in RELEASES:
        kubernetes_validate.validate(document, release, strict=True)


def test_helm_finds_nothing_wrong() -> None:
    """`helm lint --strict` has no warning, with every switch off and on."""
    for values in ({}, FULL):
        report = helm_python.lint(CHART, values, strict=True)
        assert report["errors"] == []
        assert [m for m in report["messages"] if m["severity"] > 1] == []


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ({}, PLAIN),
        ({"networkPolicy": {"enabled": False}}, ["Deployment", "Service"]),
        (
            FULL,
            sorted(
                [*PLAIN, "ConfigMap", "PersistentVolumeClaim", "ServiceMonitor"]
                + 2 * ["PrometheusRule"]
            ),
        ),
    ],
    ids=["default", "open", "full"],
)
def test_the_chart_makes_what_the_schemas_allow(values: dict[str, Any], kinds: list[str]) -> None:
    """Each object is one that old and new Kubernetes, and the Prometheus operator, take."""
    documents = _rendered(values)
    assert sorted(one["kind"] for one in documents) == kinds
    for document in documents:
        _check(document)


@pytest.mark.parametrize(
    "wrong",
    [{"replicas": 2}, {"service": {"port": 0}}, {"image": {"pullPolicy": "never"}}],
    ids=str,
)
def test_the_chart_refuses_values_it_does_not_have(wrong: dict[str, Any]) -> None:
    """A typing mistake in the values is an error, not a default."""
    with pytest.raises(helm_python.HelmError):
        _rendered(wrong)


def test_the_kustomization_makes_what_the_schemas_allow() -> None:
    """All of `kubectl apply -k`, and the monitor that goes beside it."""
    documents = _kustomized()
    assert sorted(one["kind"] for one in documents) == sorted([*PLAIN, "ConfigMap", "Namespace"])
    for document in [*documents, *_documents((KUSTOMIZATION / "servicemonitor.yaml").read_text())]:
        _check(document)


@pytest.mark.parametrize("made", [lambda: _rendered(FULL), _kustomized], ids=["helm", "kustomize"])
def test_the_pod_starts_fabricmon_as_it_wants_to_be_started(made: Any, tmp_path: Path) -> None:
    """Options exist, the config is good, what is written is on a volume, and nothing is root's."""
    documents = {one["kind"]: one for one in made()}
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command = main.get_command(None, "run")  # type: ignore[arg-type]
    assert container["args"][0] == "run"
    with command.make_context("run", list(container["args"][1:])) as context:
        state = context.params["state_file"]
    places = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert str(state.parent) in places
    assert set(places.values()) == {volume["name"] for volume in pod["volumes"]}

    config = tmp_path / "fabricmon.yaml"
    config.write_text(documents["ConfigMap"]["data"]["fabricmon.yaml"])
    done = CliRunner().invoke(main, ["check", str(config)])
    assert done.exit_code == 0, done.output

    # What `pod-security.kubernetes.io/enforce: restricted` of the namespace asks for.
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
