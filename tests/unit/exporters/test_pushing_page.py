"""docs/pushing.md: its example is a config that loads."""

from __future__ import annotations

from support import ROOT

from fabricmon import yamlfile
from fabricmon.settings import validate
from fabricmon_exporters.alertmanager import AlertmanagerConfig
from fabricmon_exporters.nats import NatsConfig
from fabricmon_exporters.remote_write import RemoteWriteConfig


def test_the_example_loads() -> None:
    """Every key of the documented config is one of the exporters'."""
    text = (ROOT / "docs" / "pushing.md").read_text()
    document = yamlfile.loads(text.partition("```yaml\n")[2].partition("```")[0])
    models = {
        "remote_write": RemoteWriteConfig,
        "alertmanager": AlertmanagerConfig,
        "nats": NatsConfig,
    }
    assert set(document.data["exporters"]) == set(models)
    for kind, model in models.items():
        config = validate(model, document, document.data["exporters"][kind], ("exporters", kind))
        assert isinstance(config, model)
