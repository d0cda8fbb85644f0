// Entry: header, routes, and the live connection. Views get `version`, which grows with each tick.
import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState, useApi, address, clock, link, Problem } from "./lib.js";
import { FabricView } from "./fabric.js";
import { IncidentsView, IncidentView } from "./incidents.js";
import { PortsView, PortView } from "./ports.js";
import { TargetsView } from "./targets.js";

const PAGES = [["fabric", "Fabric"], ["incidents", "Incidents"], ["ports", "Ports"], ["targets", "Targets"]];

function useRoute() {
  const parse = () => {
    const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
    return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: Object.fromEntries(new URLSearchParams(search)) };
  };
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const moved = () => setRoute(parse());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return route;
}

// Ticks come over SSE; a burst of them (a replay) makes at most two refreshes a second.
function useLive() {
  const [live, setLive] = useState({ version: 0, connected: false });
  useEffect(() => {
    const source = new EventSource(address("events"));
    let timer = null;
    source.onopen = () => setLive((old) => ({ version: old.version + 1, connected: true }));
    source.onerror = () => setLive((old) => ({ ...old, connected: false }));
    source.onmessage = () => {
      if (timer === null) timer = setTimeout(() => { timer = null; setLive((old) => ({ version: old.version + 1, connected: true })); }, 500);
    };
    return () => { source.close(); clearTimeout(timer); };
  }, []);
  return live;
}

function ThemeButton() {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const [isDark, setDark] = useState(dark());
  const flip = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    setDark(dark());
    dispatchEvent(new Event("themechange"));
  };
  return html`<button onClick=${flip}>${isDark ? "Light" : "Dark"}</button>`;
}

function App() {
  const route = useRoute();
  const live = useLive();
  const status = useApi("status", {}, live.version);
  const [chosen, choose] = useState(null);
  const fabrics = (status.data?.fabrics ?? []).map((one) => one.name);
  const fabric = route.query.fabric ?? (fabrics.includes(chosen) ? chosen : fabrics[0]);
  const elsewhere = Object.entries(status.data?.leaders ?? {}).filter(([name]) => !fabrics.includes(name));
  const page = route.parts[0] ?? "fabric";
  const main = useRef(null);
  const shown = useRef(location.hash);
  useLayoutEffect(() => { // with the page it moves to: later, it would take the focus from who already types
    document.title = `fabricmon: ${route.parts.slice(0, 4).join(" ") || "fabric"}`;
    if (shown.current !== location.hash) main.current?.focus();
    shown.current = location.hash;
  }, [location.hash]);
  const props = { fabric, status: status.data, version: live.version, route };
  const view = useMemo(() => pick(page, props), [page, fabric, status.data, live.version, route]);
  return html`
    <header>
      <span class="name"><img src="/static/icon.svg" alt="" />fabricmon</span>
      <nav aria-label="Pages">${PAGES.map(([key, title]) => html`
        <a href=${link(key)} aria-current=${page.startsWith(key.replace(/s$/, "")) ? "page" : null}>${title}</a>`)}</nav>
      <span class="right">
        ${fabrics.length > 1 && html`<label>Fabric <select value=${fabric} onChange=${(e) => choose(e.target.value)}>
          ${fabrics.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`}
        <span role="status">${live.connected ? html`<span class="pulse" aria-hidden="true">● </span>live` : "○ not connected"}
          ${" "}${clock(status.data?.fabrics.find((one) => one.name === fabric)?.time)}</span>
        <${ThemeButton} />
      </span>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      <${Problem} error=${status.error} />
      <${Problem} error=${status.data?.last_reload_successful === false && `The last reload was refused; the config of ${clock(status.data.last_reload_at)} is still used. The log says why.`} />
      ${elsewhere.map(([name, leader]) => html`<p role="status">${leader ? `Worker ${leader} of the cluster judges ${name}: its ports and incidents are on that worker's page.` : `No worker of the cluster judges ${name} now.`}</p>`)}
      ${fabric || page === "targets" ? view : elsewhere.length === 0 && html`<p role="status">Waiting for the first poll.</p>`}
    </main>`;
}

function pick(page, props) {
  const [, ...rest] = props.route.parts;
  if (page === "incidents") return html`<${IncidentsView} ...${props} />`;
  if (page === "incident") return html`<${IncidentView} ...${props} id=${rest[0]} />`;
  if (page === "ports") return html`<${PortsView} ...${props} />`;
  if (page === "port") return html`<${PortView} ...${props} fabric=${rest[0]} device=${rest[1]} port=${rest[2]} />`;
  if (page === "targets") return html`<${TargetsView} ...${props} />`;
  return html`<${FabricView} ...${props} />`;
}

const kept = localStorage.getItem("theme");
if (kept) document.documentElement.dataset.theme = kept;
render(html`<${App} />`, document.getElementById("app"));
