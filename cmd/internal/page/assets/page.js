"use strict";
// Comfort on top of a page that works without: choosing without a jump, sorting, filtering, copying, the theme. All of
// it listens on the document, so that a server may replace the body at any time.
(() => {
  const root = document.documentElement;
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  root.classList.add("js");

  // Storage may be forbidden, as it is for files in some browsers.
  const remembered = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("moeplan-theme");
      localStorage.setItem("moeplan-theme", value);
    } catch { /* the theme is then that of the system at every start */ }
    return null;
  };

  const themes = ["auto", "light", "dark"];
  function theme(name) {
    if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
    const button = one("#theme");
    if (!button) return;
    button.textContent = "◐ " + name;
    button.setAttribute("aria-label", "Theme: " + (name === "auto" ? "as the system says" : name) + ". Press to change");
  }

  const data = () => JSON.parse(one("#data")?.textContent || "{}");

  // choose shows one plan everywhere. What was clicked stays where it is, however high the plan above it is.
  function choose(id, tell, clicked) {
    const plan = document.getElementById(id);
    if (!plan || !plan.classList.contains("plan")) return;
    const before = clicked?.getBoundingClientRect().top;
    for (const x of all(".plan")) x.classList.toggle("selected", x === plan);
    for (const x of all("[data-plan]")) {
      const chosen = x.dataset.plan === id;
      x.classList.toggle("selected", chosen);
      if (x.matches("tr")) x.setAttribute("aria-current", chosen ? "true" : "false");
    }
    if (!tell) return;
    history.replaceState(null, "", "#" + id);
    if (clicked) scrollBy({ top: clicked.getBoundingClientRect().top - before, behavior: "instant" });
    const facts = data()[id], status = one("#status");
    const top = plan.getBoundingClientRect().top;
    status.hidden = top > -40 && top < innerHeight * 0.6;
    status.textContent = `Plan ${facts.label}: ${facts.tuned} s tuned, ${facts.free} GiB free`;
    const show = document.createElement("button");
    show.type = "button";
    show.textContent = "Show";
    show.addEventListener("click", () => {
      plan.scrollIntoView({ block: "start" });
      status.hidden = true;
    });
    status.append(show);
  }

  function sort(head) {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const th of table.querySelectorAll("[aria-sort]")) th.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[column].dataset.sort;
    const compare = (a, b) => {
      const x = Number(a), y = Number(b);
      return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
    };
    const rows = [...body.rows].sort((a, b) => compare(value(a), value(b)) * (down ? -1 : 1));
    body.append(...rows);
  }

  // filter keeps the rows that meet every word: tp2, ep>=16, or a piece of text.
  function filter(text) {
    const table = one("#plans");
    if (!table) return;
    const columns = {};
    for (const th of table.querySelectorAll("th[data-key]")) columns[th.dataset.key] = th.cellIndex;
    const conditions = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
      const m = /^([a-z]+)(<=|>=|<|>|=|)(\d+(?:\.\d+)?)$/.exec(word);
      if (!m || !Object.hasOwn(columns, m[1])) return (row) => row.textContent.toLowerCase().includes(word);
      const bound = Number(m[3]), column = columns[m[1]];
      return (row) => {
        const x = Number(row.cells[column].dataset.sort);
        return { "<=": x <= bound, ">=": x >= bound, "<": x < bound, ">": x > bound }[m[2]] ?? x === bound;
      };
    });
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !conditions.every((holds) => holds(row));
      if (!row.hidden) shown++;
    }
    one("#matches").textContent = conditions.length ? `${shown} of ${table.tBodies[0].rows.length}` : "";
  }

  async function copy(button) {
    const text = button.dataset.copy;
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no permission, or no secure context: the old way
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    button.textContent = done ? "Copied ✓" : "Select it by hand";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  document.addEventListener("click", (event) => {
    const target = event.target;
    const link = target.closest('a[href^="#plan-"]');
    const row = target.closest("tr[data-plan]");
    if (link) {
      event.preventDefault();
      choose(link.getAttribute("href").slice(1), true, link.closest(".plan") ? null : link);
    } else if (row && !getSelection().toString()) choose(row.dataset.plan, true, row);
    else if (target.closest(".copy")) copy(target.closest(".copy"));
    else if (target.closest(".sort")) sort(target.closest("th"));
    else if (target.closest("#theme")) {
      const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
      remembered(next);
      theme(next);
    }
  });
  document.addEventListener("input", (event) => { if (event.target.id === "filter") filter(event.target.value); });
  document.addEventListener("submit", (event) => { if (event.target.matches(".filter")) event.preventDefault(); });
  addEventListener("hashchange", () => choose(location.hash.slice(1), true));

  // What hovering or focusing a point says.
  const tip = one("#tip");
  const say = (event) => {
    const point = event.target.closest?.("[data-tip]");
    tip.hidden = !point;
    if (!point) return;
    tip.textContent = point.dataset.tip;
    const at = point.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(at.left + at.width / 2 - tip.offsetWidth / 2, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = (at.top - tip.offsetHeight - 6 > 0 ? at.top - tip.offsetHeight - 6 : at.bottom + 6) + "px";
  };
  document.addEventListener("pointerover", say);
  document.addEventListener("focusin", say);
  document.addEventListener("focusout", () => { tip.hidden = true; });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = one("#status").hidden = true; });

  // ready prepares a body that was just put in place.
  function ready() {
    theme(themes.includes(remembered()) ? remembered() : "auto");
    const wanted = location.hash.slice(1);
    choose(document.getElementById(wanted)?.classList.contains("plan") ? wanted : "plan-1", false);
  }
  ready();
  document.addEventListener("moeplan:body", ready);
})();
