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
  for (const title of document.querySelectorAll(".plot g > title, .rowname > title")) {
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
