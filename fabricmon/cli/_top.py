"""The terminal screen of `fabricmon top`: incidents above, ports below, made for 80 x 24."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlencode

import click
from rich.text import Text
from textual import work
from textual.app import App
from textual.binding import Binding
from textual.widgets import DataTable, Footer, Input, Static

from fabricmon.cli._client import get

if TYPE_CHECKING:
    from textual.app import ComposeResult

SORTS = ("stall", "press", "score", "tx_use", "rx_use", "name")
_ROWS = 200
_MARKS = {"severe": "!!", "moderate": "! ", "mild": ". "}
_STYLES = {"severe": "bold reverse", "moderate": "bold", "mild": ""}
_HELP = "s sort  / filter  p pause  f fabric  r refresh  q quit; !! severe  ! moderate  . mild"


class Top(App[None]):
    """Asks the daemon every few seconds; keeps what is shown when it does not answer."""

    TITLE = "fabricmon top"
    CSS = """
    #status { height: 1; }
    #incidents { height: 8; }
    #ports { height: 1fr; }
    #filter { display: none; height: 3; }
    #filter.open { display: block; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("p", "pause", "Pause"),
        Binding("f", "fabric", "Fabric"),
        Binding("r", "refresh_now", "Refresh"),
        Binding("question_mark", "explain", "Help", key_display="?"),
        Binding("escape", "close_filter", show=False),
    ]

    def __init__(self, url: str, refresh_s: float, user: str | None, password_env: str) -> None:
        """Inert until `run`."""
        super().__init__()
        self._url, self._refresh_s = url, refresh_s
        self._login = (user, password_env)
        self._sort = SORTS[0]
        self._text = ""
        self._paused = False
        self._fabric = 0

    def compose(self) -> ComposeResult:
        """Status line, two tables, a filter that opens on demand, the keys."""
        yield Static("", id="status", markup=False)
        yield DataTable(id="incidents", cursor_type="row", zebra_stripes=False)
        yield DataTable(id="ports", cursor_type="row", zebra_stripes=False)
        yield Input(placeholder="part of a device or port name", id="filter")
        yield Footer()

    def on_mount(self) -> None:
        """Columns once; then ask, again and again."""
        incidents = self.query_one("#incidents", DataTable)
        for title, width in (("", 2), ("kind", 18), ("cause", 24), ("victims", 7), ("verdict", 10)):
            incidents.add_column(title, width=width)
        ports = self.query_one("#ports", DataTable)
        for title, width in (
            ("port", 26), ("stall", 6), ("press", 6), ("tx", 5), ("rx", 5), ("score", 5), ("", 3),
        ):  # fmt: skip
            ports.add_column(title, width=width)
        ports.focus()
        self._ask()
        self.set_interval(self._refresh_s, self._ask)

    def _ask(self) -> None:
        if not self._paused:
            self._fetch(self._sort, self._text)

    @work(thread=True, exclusive=True)
    def _fetch(self, sort: str, text: str) -> None:
        """In a thread: ask, then show."""
        try:
            status = get(self._url, "/api/v1/status", *self._login)
            fabrics = [one["name"] for one in status["fabrics"]] or [""]
            fabric = fabrics[self._fabric % len(fabrics)]
            query = urlencode({"fabric": fabric, "sort": sort, "limit": _ROWS, "q": _words(text)})
            path = f"/api/v1/incidents?limit={_ROWS}&fabric={quote(fabric)}"
            incidents = get(self._url, path, *self._login)
            ports = get(self._url, f"/api/v1/ports?{query}", *self._login)
        except click.ClickException as error:
            self.call_from_thread(self._say, error.message)
            return
        order = f"{sort}, filter {text!r}" if text else sort
        self.call_from_thread(self._show, incidents, ports, order)

    def _say(self, line: str) -> None:
        self.query_one("#status", Static).update(line)

    def _show(self, incidents: list[dict[str, Any]], ports: dict[str, Any], order: str) -> None:
        if self._paused:  # it was asked for before
            return
        open_ = [incident for incident in incidents if incident["state"] != "closed"]
        total = ports["total"]
        fabric = ports["fabric"]
        self._say(f"{fabric}: {len(open_)} open, {total} ports by {order}")
        table = self.query_one("#incidents", DataTable)
        table.clear()
        for incident in open_:
            table.add_row(*_incident_row(incident))
        table = self.query_one("#ports", DataTable)
        at = table.cursor_row
        table.clear()
        for port in ports["ports"]:
            table.add_row(*_port_row(port))
        if table.row_count:
            table.move_cursor(row=min(at, table.row_count - 1))

    # --- keys ---------------------------------------------------------------------------------

    def action_sort(self) -> None:
        """The next order."""
        self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
        self._ask()

    def action_fabric(self) -> None:
        """The next fabric, where there are several."""
        self._fabric += 1
        self._ask()

    def action_pause(self) -> None:
        """Hold the picture, or let it move again."""
        self._paused = not self._paused
        self._say("paused; p goes on" if self._paused else "...")
        self._ask()

    def action_refresh_now(self) -> None:
        """Ask at once."""
        self._ask()

    def action_explain(self) -> None:
        """The keys and marks, for a while."""
        self.notify(_HELP, timeout=8)

    def action_filter(self) -> None:
        """Open the filter."""
        field = self.query_one("#filter", Input)
        field.add_class("open")
        field.focus()

    def action_close_filter(self) -> None:
        """Close the filter, and forget it."""
        field = self.query_one("#filter", Input)
        field.value = ""
        self._take_filter("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Use the filter."""
        self._take_filter(event.value.strip())

    def _take_filter(self, text: str) -> None:
        self._text = text
        self.query_one("#filter", Input).remove_class("open")
        self.query_one("#ports", DataTable).focus()
        self._ask()


def _words(text: str) -> str:
    """A port may be typed as it is shown, `leaf1[Ethernet2`; the API takes words."""
    return text.replace("[", " ").replace("]", "")


def _incident_row(incident: dict[str, Any]) -> list[Text]:
    """Cells of one incident. Names come from devices: plain text, never markup."""
    cause = incident["cause"]
    where = f"{cause['device']}[{cause['port']}]" if cause else "no single port"
    style = _STYLES[incident["severity"]]
    return [
        Text(text, style=style, no_wrap=True)
        for text in (
            _MARKS[incident["severity"]],
            incident["kind"],
            where,
            str(len(incident["victims"])),
            incident["verdict"],
        )
    ]


def _port_row(port: dict[str, Any]) -> list[Text]:
    cells = [f"{port['device']}[{port['port']}]"]
    cells += [_share(port[name]) for name in ("stall", "press", "tx_use", "rx_use")]
    cells.append("-" if port["score"] is None else f"{port['score']:.2f}")
    cells.append("!" if port["alarm"] else "~" if port["estimated"] else "")
    return [Text(cell, no_wrap=True) for cell in cells]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f}%"
