// Where a node is drawn. Tiers are rows, hosts at the bottom; a node's place in its row follows its
// name, a host's follows its leaf. The same fabric always looks the same: nothing jumps.

const byName = (names) => {
  const collator = new Intl.Collator("en", { numeric: true });
  return (a, b) => collator.compare(names[a], names[b]);
};

export function layout(topology) {
  const names = topology.nodes.map(([name]) => name);
  const tiers = topology.nodes.map(([, , tier]) => tier);
  const neighbours = names.map(() => []);
  const ends = new Map();
  for (const [a, portA, b, portB] of topology.links) {
    neighbours[a].push(b);
    neighbours[b].push(a);
    ends.set(`${names[a]}\0${portA}`, [a, b]);
    ends.set(`${names[b]}\0${portB}`, [b, a]);
  }
  const rows = [...new Set(tiers)].sort((a, b) => b - a).map((tier) => ({ tier, nodes: [] }));
  const rowOf = new Map(rows.map((row, i) => [row.tier, i]));
  tiers.forEach((tier, node) => rows[rowOf.get(tier)].nodes.push(node));
  const place = new Float64Array(names.length);
  const compare = byName(names);
  const settle = (row) => row.nodes.forEach((node, i) => { place[node] = (i + 0.5) / row.nodes.length; });
  for (const row of rows) {
    row.nodes.sort(compare);
    settle(row);
  }
  const hosts = rows.find((row) => row.tier === 0);
  if (hosts) {
    const under = (node) => {
      const above = neighbours[node].filter((other) => tiers[other] > 0).map((other) => place[other]);
      return above.length ? Math.min(...above) : 2;
    };
    const leaf = new Map(hosts.nodes.map((node) => [node, under(node)]));
    hosts.nodes.sort((a, b) => leaf.get(a) - leaf.get(b) || compare(a, b));
    settle(hosts);
  }
  const row = tiers.map((tier) => rowOf.get(tier));
  return { names, tiers, rows, row, place, ends, index: new Map(names.map((name, i) => [name, i])), links: topology.links };
}

export const TIER_NAMES = { 3: "core", 2: "spine", 1: "leaf", 0: "host", "-1": "unknown tier" };
