"use strict";
// Asks again a moment after the question changes, and puts the answer where the last one was.
(() => {
  let waiting = 0, asking = null;
  const said = () => document.querySelector("#said");
  const question = () => {
    const q = new URLSearchParams(new FormData(document.querySelector("#question")));
    for (const [name, value] of [...q]) if (!value) q.delete(name);
    return q.toString();
  };
  async function ask() {
    asking?.abort();
    const mine = asking = new AbortController();
    const body = document.querySelector("#body");
    body.setAttribute("aria-busy", "true");
    try {
      const q = question(), start = performance.now();
      const answer = await fetch("/answer?" + q, { signal: mine.signal, headers: { Accept: "text/html" } });
      const text = await answer.text();
      if (mine !== asking) return;
      if (!answer.ok) {
        said().textContent = text.trim();
        return;
      }
      const chosen = location.hash;
      body.innerHTML = text;
      history.replaceState(null, "", "/?" + q + chosen);
      said().textContent = "";
      document.querySelector("#question").dataset.ms = Math.round(performance.now() - start);
      document.dispatchEvent(new Event("moeplan:body"));
    } catch (error) {
      if (error.name !== "AbortError") said().textContent = "moeplan does not answer: is it still running?";
    } finally {
      if (mine === asking) body.removeAttribute("aria-busy");
    }
  }
  document.addEventListener("input", (event) => {
    if (!event.target.closest("#question")) return;
    clearTimeout(waiting);
    waiting = setTimeout(ask, 250);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "question") return;
    event.preventDefault();
    clearTimeout(waiting);
    ask();
  });
})();
