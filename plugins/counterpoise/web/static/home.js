// What Airflow's own home shows of Counterpoise: the plans that wait, the runs under way, and the way to our pages.
//
// Airflow imports this file (`react_apps`, destination "dashboard") and takes the component from AirflowPlugin; React is
// Airflow's. Whoever may not see our pages sees nothing of it. Whatever is answered, nothing here may throw while it is
// drawn: Airflow would show an error page in place of its home.

const { createElement, useEffect, useState } = globalThis.React;
const PAGES = new URL("..", import.meta.url).pathname;
const FORMAT = "counterpoise-api/1";
const MILLISECONDS = 60_000; // from an answer to the next question
const AFTER_A_FAILURE = 300_000;
const MAX_WAIT = 10_000;
const MAX_RUNS = 5;
const NOT_SHOWN = "What waits and what runs cannot be shown now.";
const ALWAYS = [["fleet", "Fleet"], ["reports", "Balance reports"]];
const WITHOUT_AN_ANSWER = ["setup", "Setup says what is missing"];

const HEADING = "counterpoise-heading";
const BELOW_THE_WELCOME = { order: 2 }; // Airflow's home is a column whose parts have places of their own
const ROW = { display: "flex", flexWrap: "wrap", gap: "0.25rem 1rem", margin: 0, padding: 0, listStyle: "none" };
const LINK = { textDecoration: "underline" };

let last = null; // kept while Airflow draws the component anew

function useLinks() {
  const [shown, setShown] = useState(last);
  useEffect(() => {
    let timer;
    let isShown = true;
    const load = async () => {
      const next = document.hidden && last !== null ? last : await openRuns();
      if (!isShown || next === undefined) return;
      last = next;
      setShown(next);
      timer = setTimeout(load, next.problem ? AFTER_A_FAILURE : MILLISECONDS);
    };
    load();
    return () => {
      isShown = false;
      clearTimeout(timer);
    };
  }, []);
  return shown;
}

// Returns the links, those of before with a problem where none can be had now, and undefined for whoever may not see any.
async function openRuns() {
  const asBefore = { links: last?.links ?? [], problem: NOT_SHOWN };
  try {
    const answer = await fetch(`${PAGES}api/open-runs`, { signal: AbortSignal.timeout(MAX_WAIT) });
    if (answer.status === 401 || answer.status === 403) return undefined;
    const found = await answer.json();
    return answer.ok && found.format === FORMAT ? { links: linksOf(found), problem: "" } : asBefore;
  } catch {
    return asBefore;
  }
}

function linksOf({ waiting, runs }) {
  const planOf = (words) => (run) => [`runs/${encodeURIComponent(run.run_id)}`, `${run.cluster}: ${words}`];
  const links = [
    ...waiting.filter((run) => run.is_mine).map(planOf("a plan waits for you")),
    ...runs.map((run) => [`runs/${encodeURIComponent(run.run_id)}`, `${run.cluster}: ${run.state}`]),
    ...waiting.filter((run) => !run.is_mine).map(planOf("a plan waits")),
  ];
  const more = links.length - MAX_RUNS;
  return more > 0 ? [...links.slice(0, MAX_RUNS), ["fleet", `${more} more`]] : links;
}

function OpenRuns() {
  const shown = useLinks();
  if (shown === null) return null;
  const links = [...(shown.problem ? [WITHOUT_AN_ANSWER] : []), ...shown.links, ...ALWAYS];
  return createElement(
    "section",
    { "aria-labelledby": HEADING, style: BELOW_THE_WELCOME },
    createElement("h2", { id: HEADING, style: { fontWeight: "bold" } }, "Kafka clusters"),
    shown.problem && createElement("p", { role: "status" }, shown.problem),
    createElement(
      "ul",
      { style: ROW },
      links.map(([path, text]) =>
        createElement("li", { key: `${path} ${text}` }, createElement("a", { href: `${PAGES}${path}`, style: LINK }, text)),
      ),
    ),
  );
}

globalThis.AirflowPlugin = OpenRuns;
