// The one script of our pages, which work without it. Text is only ever set by textContent, and attributes by setAttribute: names of a
// cluster cannot become markup. The policy of the pages (Trusted Types) would refuse anything else.
"use strict";
{
  const AFTER_A_FAILURE = 30_000; // milliseconds
  const MAX_WAIT = 10_000;
  const units = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30, tib: 2 ** 40 };

  const json = async (path) => {
    const answer = await fetch(path, { signal: AbortSignal.timeout(MAX_WAIT), headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(answer.statusText);
    return answer.json();
  };

  const duration = (seconds) => {
    const rest = Math.round(seconds);
    const sizes = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const parts = sizes.map(([unit, size], index) => [index ? Math.floor((rest % sizes[index - 1][1]) / size) : Math.floor(rest / size), unit]);
    return parts.filter(([count]) => count).slice(0, 2).map(([count, unit]) => `${count}\u00a0${unit}`).join(" ") || "0\u00a0s";
  };

  // The rate, and the time that it makes: `data-busiest-bytes` is what the busiest broker sends or receives.
  for (const input of document.querySelectorAll("[data-busiest-bytes] input[name=rate]")) {
    const holder = input.closest("[data-busiest-bytes]");
    const places = document.querySelectorAll(".at-rate");
    input.addEventListener("input", () => {
      const typed = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?b)\s*\/\s*s\s*$/i.exec(input.value);
      const rate = typed && Number(typed[1]) * units[typed[2].toLowerCase()];
      for (const place of places) place.textContent = rate ? duration(holder.dataset.busiestBytes / rate) : "–";
    });
  }

  // Tooltips of charts: what the <title> says, at once, beside the pointer.
  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip";
  tip.hidden = true;
  const texts = new WeakMap();
  for (const title of document.querySelectorAll(".plot g > title")) {
    const owner = title.parentNode;
    texts.set(owner, title.textContent);
    title.remove();
    owner.addEventListener("pointermove", (event) => {
      tip.textContent = texts.get(owner);
      tip.hidden = false;
      tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${Math.max(8, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
    });
    owner.addEventListener("pointerleave", () => {
      tip.hidden = true;
    });
  }

  // A page that loads again keeps the place of the keyboard.
  const FOCUS = "counterpoise-focus";
  const nameOf = (element) => `${location.pathname} ${element.id || element.getAttribute("href") || element.textContent.trim()}`;
  const loadAgain = () => {
    if (document.activeElement !== document.body) sessionStorage.setItem(FOCUS, nameOf(document.activeElement));
    location.reload();
  };
  const focused = sessionStorage.getItem(FOCUS);
  sessionStorage.removeItem(FOCUS);
  const places = focused ? [...document.querySelectorAll("a, button, summary, [tabindex]")] : [];
  places.find((element) => nameOf(element) === focused)?.focus({ preventScroll: true });

  // A run that may change: what it does now is drawn into the page every few seconds. Where there is more to draw than numbers, bars and
  // lines, the page loads again, unless somebody is typing.
  const run = document.querySelector("[data-progress]");

  // Also the line "now: 12" of each tooltip.
  const drawBars = (svg, values, shown, name) => {
    const { base, per } = svg.dataset;
    svg.querySelectorAll(".slot").forEach((slot, index) => {
      const now = shown[`${name}-${index}`];
      if (now !== undefined) texts.set(slot, texts.get(slot).replace(/^now: .*$/m, `now: ${now}`));
    });
    const top = (value) => (base - value * per).toFixed(1);
    const steps = svg.querySelector("path.b-is");
    if (steps) steps.setAttribute("d", `M0 ${base}${values.map((value, index) => `V${top(value)}H${index + 1}`).join("")}V${base}Z`);
    svg.querySelectorAll("rect.b-is").forEach((bar, index) => {
      bar.setAttribute("y", top(values[index]));
      bar.setAttribute("height", (values[index] * per).toFixed(1));
    });
  };

  // Returns whether all points have room: the axes stay as they are.
  const drawLine = (svg, points, rest) => {
    const { begin, end, top, height } = Object.fromEntries(Object.entries(svg.dataset).map(([name, value]) => [name, Number(value)]));
    const place = ([at, value]) => `${((1000 * (at - begin)) / (end - begin)).toFixed(0)} ${(height - (value / top) * height).toFixed(1)}`;
    const line = `M${points.map(place).join("L")}`;
    const last = ((100 * (points.at(-1)[0] - begin)) / (end - begin)).toFixed(2);
    svg.querySelector(".ln").setAttribute("d", line);
    svg.querySelector(".area")?.setAttribute("d", `${line}L${10 * last} ${height}L0 ${height}Z`);
    if (rest) svg.querySelector(".ln.dash")?.setAttribute("d", `M${[points.at(-1), rest].map(place).join("L")}`);
    for (const mark of svg.querySelectorAll(".now-l")) for (const x of ["x1", "x2"]) mark.setAttribute(x, `${last}%`);
    for (const mark of svg.querySelectorAll(".now-t")) mark.setAttribute("x", `${last}%`);
    for (const time of svg.querySelectorAll(".t")) time.toggleAttribute("hidden", Math.abs(parseFloat(time.getAttribute("x")) - last) < 10);
    return points.every(([at, value]) => at <= end && value <= top);
  };

  const update = async () => {
    const found = await json(run.dataset.progress);
    const fields = [...document.querySelectorAll("input, textarea, select")];
    const isTyping = fields.some((field) => field === document.activeElement || (field.defaultValue ?? field.value) !== field.value);
    let isDrawn = found.version === run.dataset.version;
    for (const place of document.querySelectorAll("[data-shown]")) {
      const text = found.shown[place.dataset.shown];
      if (text !== undefined && place.textContent !== text) place.textContent = text;
    }
    const meter = document.getElementById("meter");
    if (meter && found.share !== null) {
      meter.setAttribute("width", `${(found.share * 100).toFixed(1)}%`);
      meter.parentNode.setAttribute("aria-label", `${found.shown.percent} done`);
    }
    for (const [name, values] of Object.entries(found.now)) drawBars(document.querySelector(`#chart-${name} .plot`), values, found.shown, name);
    const [copied, speed] = ["line-copied", "line-speed"].map((id) => document.getElementById(id));
    if (copied && found.trail.length > 1) {
      const rest = found.ends_at && [Date.parse(found.ends_at) / 1000, found.total_bytes];
      isDrawn = drawLine(copied, found.trail.map(([at, bytes]) => [at, bytes]), rest) && isDrawn;
      isDrawn = drawLine(speed, found.trail.map(([at, , rate]) => [at, rate])) && isDrawn;
    }
    if (!isDrawn && !isTyping) loadAgain();
    document.getElementById("changed").hidden = isDrawn || !isTyping;
  };

  const follow = () => {
    const wait = Number(run.dataset.seconds) * 1000;
    const next = (milliseconds) => setTimeout(follow, milliseconds);
    if (document.hidden) return next(wait);
    const hear = (isAnswered) => {
      document.getElementById("silent").hidden = isAnswered;
      next(isAnswered ? wait : AFTER_A_FAILURE);
    };
    return update().then(() => hear(true), () => hear(false));
  };
  if (run) setTimeout(follow, Number(run.dataset.seconds) * 1000);

  // The plans that wait for whoever looks, in the top bar.
  const waiting = document.querySelector("[data-open-runs]");
  const countWaiting = async () => {
    const open = await json(waiting.dataset.openRuns);
    const mine = open.waiting.filter((run) => run.is_mine);
    waiting.hidden = !mine.length;
    waiting.querySelector(".n").textContent = mine.length;
    if (mine.length === 1) waiting.setAttribute("href", waiting.dataset.openRuns.replace("api/open-runs", `runs/${encodeURIComponent(mine[0].run_id)}`));
  };
  if (waiting) countWaiting().catch(() => {});
}
