// What Airflow's own home shows of Counterpoise: the plans that wait, the runs under way, and the way to our pages.
//
// Airflow imports it (`react_apps`, destination "dashboard") and takes the component from AirflowPlugin; React is Airflow's.
// Whoever may not see our pages sees nothing of it.

const { createElement, useEffect, useState } = globalThis.React;
const PAGES = new URL("..", import.meta.url).pathname;
const MILLISECONDS = 30_000;
const MAX_RUNS = 5;

const LINK = { textDecoration: "underline" };
const ROW = { display: "flex", flexWrap: "wrap", gap: "0.25rem 1rem", margin: 0, padding: 0, listStyle: "none" };

function useOpenRuns() {
  const [found, setFound] = useState(null);
  useEffect(() => {
    let isShown = true;
    const load = async () => {
      const next = await openRuns();
      if (isShown) setFound(next);
    };
    load();
    const timer = setInterval(load, MILLISECONDS);
    return () => {
      isShown = false;
      clearInterval(timer);
    };
  }, []);
  return found;
}

async function openRuns() {
  try {
    const answer = await fetch(`${PAGES}api/open-runs`);
    if (answer.status === 401 || answer.status === 403) return null;
    if (!answer.ok) return { problem: "What waits and what runs cannot be shown now." };
    return await answer.json();
  } catch {
    return { problem: "Airflow's api-server does not answer." };
  }
}

function linkTo(path, text) {
  return createElement("a", { href: `${PAGES}${path}`, style: LINK }, text);
}

function itemsOf({ waiting, runs }) {
  const mineFirst = waiting.toSorted((one, other) => other.is_mine - one.is_mine);
  const plans = mineFirst.map((run) => [
    `runs/${encodeURIComponent(run.run_id)}/plan`,
    `${run.cluster}: a plan waits for ${run.is_mine ? "you" : "others"}`,
  ]);
  const others = runs.map((run) => [`runs/${encodeURIComponent(run.run_id)}`, `${run.cluster}: ${run.state}`]);
  return [...plans, ...others];
}

function OpenRuns() {
  const found = useOpenRuns();
  if (found === null) return null;
  const items = found.problem ? [] : itemsOf(found);
  const links = items.slice(0, MAX_RUNS);
  if (items.length > MAX_RUNS) links.push(["fleet", `${items.length - MAX_RUNS} more`]);
  links.push(["fleet", "Fleet"], ["reports", "Balance reports"]);
  return createElement(
    "section",
    { "aria-label": "Kafka clusters" },
    createElement("h2", { style: { fontWeight: "bold" } }, "Kafka clusters"),
    found.problem && createElement("p", { role: "alert" }, found.problem),
    createElement(
      "ul",
      { style: ROW },
      links.map(([path, text]) => createElement("li", { key: `${path} ${text}` }, linkTo(path, text))),
    ),
  );
}

globalThis.AirflowPlugin = OpenRuns;
