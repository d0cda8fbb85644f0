"""Write the dashboards' JSON from `boards/`, through Grafana's own typed builders.

python deploy/grafana/generate.py           write dashboards/*.json
python deploy/grafana/generate.py --check   exit 1 if a file is not what would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boards import DASHBOARDS
from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    nodegraph,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DataTransformerConfig,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

if TYPE_CHECKING:
    from boards.parts import Dashboard, Panel

HERE = Path(__file__).parent / "dashboards"
_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_HIDDEN = ("Time", "__name__", "instance", "job", "Value")


def _target(expression: str, legend: str, index: int, kind: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(expression).ref_id("AB"[index])
    if kind in ("table", "graph"):
        return query.format(PromQueryFormat.TABLE).instant()
    return query.legend_format(legend).range()


def _builder(panel: Panel) -> Any:
    match panel.kind:
        case "number":
            return stat.Panel()
        case "table":
            hidden = dict.fromkeys(
                _HIDDEN if "increase" not in panel.queries[0][0] else _HIDDEN[:-1], True
            )
            options = {"excludeByName": hidden}
            return table.Panel().with_transformation(
                DataTransformerConfig(id_val="organize", options=options)
            )
        case "graph":
            options = {"renameByName": {"Value": "mainstat"}}
            return nodegraph.Panel().with_transformation(
                DataTransformerConfig(id_val="organize", options=options)
            )
    lines = timeseries.Panel().fill_opacity(8).line_width(2)
    lines = lines.tooltip(common.VizTooltipOptions().mode("multi")).min(0)
    return lines if panel.top is None else lines.max(panel.top)


def _panel(panel: Panel) -> Any:
    built = _builder(panel).title(panel.title).unit(panel.unit).datasource(_SOURCE)
    built = built.span(panel.width).height(panel.height)
    if panel.text:
        built = built.description(panel.text)
    for i, (expression, legend) in enumerate(panel.queries):
        built = built.with_target(_target(expression, legend, i, panel.kind))
    return built


def _variable(name: str, label: str, query: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(_SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NATURAL_ASC)
        .include_all(include_all=True)
        .all_value(".*")
        .multi(multi=True)
    )


def build(one: Dashboard) -> dict[str, Any]:
    """Grafana's JSON of one dashboard."""
    made = (
        dashboard.Dashboard(one.title)
        .uid(one.uid)
        .description(one.text)
        .tags(["fabricmon"])
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data").type("prometheus"))
        .link(
            dashboard.DashboardLink("fabricmon")
            .type("dashboards")
            .tags(["fabricmon"])
            .as_dropdown(as_dropdown=True)
            .keep_time(keep_time=True)
        )
    )
    for variable in one.variables:
        made = made.with_variable(_variable(*variable))
    for title, panels in one.rows:
        made = made.with_row(dashboard.Row(title))
        for panel in panels:
            made = made.with_panel(_panel(panel))
    data: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(made.build()))
    for number, panel in enumerate(data["panels"], 1):
        panel["id"] = number
    return data


def main(arguments: list[str]) -> int:
    """Write, or check that nothing would be written."""
    files = {
        HERE / f"{one.uid}.json": json.dumps(build(one), indent=1, sort_keys=True) + "\n"
        for one in DASHBOARDS
    }
    wrong = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if arguments == ["--check"]:
        for path in wrong:
            print(f"{path.name} is out of date: run {Path(__file__).name}")  # noqa: T201
        return bool(wrong)
    HERE.mkdir(exist_ok=True)
    for path in wrong:
        path.write_text(files[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
