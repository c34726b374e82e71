// Homing's dashboard: what HTML alone does not do. Without it everything but the refresh, the keys and "copy" works.
"use strict";

(() => {
  const root = document.body.dataset.root;
  const pulse = document.getElementById("pulse");

  // ── Refresh: pages fetch themselves again when there is something new, and rest while nobody looks ──────────────

  let stream = null;
  let timer = null;

  function show(state, text) {
    if (!pulse) return;
    pulse.classList.toggle("live", state === "live");
    pulse.classList.toggle("away", state === "away");
    pulse.querySelector("[data-pulse]").textContent = text;
  }

  function isBusy() {
    const live = document.getElementById("live");
    if (!live) return true;
    const at = document.activeElement;
    const typing = at && live.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName);
    return Boolean(typing || live.querySelector("input:checked[data-select]") || window.getSelection().toString());
  }

  function look() {
    if (document.hidden || isBusy()) return;
    if (document.getElementById("live").dataset.reload !== undefined) window.location.reload();
    else htmx.trigger(document.body, "homing:look");
  }

  function rest() {
    if (stream) stream.close();
    clearInterval(timer);
    stream = timer = null;
  }

  function poll(seconds) {
    rest();
    show("live", `every ${seconds} s`);
    timer = setInterval(look, seconds * 1000);
  }

  function listen() {
    rest();
    if (pulse) pulse.hidden = !document.getElementById("live");
    if (document.hidden || !pulse || !document.getElementById("live")) return;
    stream = new EventSource(`${root}/live`);
    stream.onopen = () => show("live", "live");
    stream.addEventListener("look", look);
    stream.addEventListener("poll", (event) => poll(Number(event.data) || 10));
    stream.onerror = () => {
      show("away", "not live: the dashboard does not answer");
      if (stream && stream.readyState === EventSource.CLOSED) poll(10);
    };
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      rest();
      show("", "paused");
    } else {
      listen();
      look();
    }
  });

  document.addEventListener("htmx:afterSwap", () => {
    if (!pulse) return;
    pulse.classList.remove("beat");
    requestAnimationFrame(() => pulse.classList.add("beat"));
    if (stream && stream.readyState === EventSource.OPEN) show("live", "live");
  });
  document.addEventListener("htmx:responseError", (event) => {
    const status = event.detail.xhr.status;
    if (status === 401 || status === 403) window.location.reload();
    else show("away", status === 503 ? "not live: a server is away" : `not live: ${status}`);
  });
  document.addEventListener("htmx:sendError", () => show("away", "not live: the dashboard does not answer"));

  // What was opened stays open, and the row that was reached stays marked, across a refresh.
  let opened = [];
  document.addEventListener("htmx:beforeSwap", () => {
    opened = [...document.querySelectorAll("#live details[open][id]")].map((each) => each.id);
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    mark(at);
  });

  // ── Light and dark ──────────────────────────────────────────────────────────────────────────────────────────────

  const themes = ["auto", "light", "dark"];

  function theme() {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
    document.documentElement.dataset.theme = next;
    for (const name of document.querySelectorAll("[data-theme-name]")) name.textContent = next;
    document.cookie = `homing_theme=${next}; path=${root || "/"}; max-age=31536000; samesite=lax`;
  }

  // ── Copy, also where the page did not come over TLS ────────────────────────────────────────────────────────────

  async function copy(button) {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    const said = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = said; }, 1200);
  }

  // ── Rows and keys ───────────────────────────────────────────────────────────────────────────────────────────────

  let at = -1;
  const rows = () => [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a"));

  function mark(index) {
    const all = rows();
    for (const row of all) row.classList.remove("at");
    at = Math.max(-1, Math.min(index, all.length - 1));
    if (at >= 0) {
      all[at].classList.add("at");
      all[at].scrollIntoView({ block: "nearest" });
    }
  }

  function select(row) {
    const box = row?.querySelector("input[data-select]");
    if (box) box.click();
  }

  function counted() {
    const number = document.querySelectorAll("input[data-select]:checked").length;
    for (const each of document.querySelectorAll("[data-selected]")) each.textContent = String(number);
  }

  const deeds = {
    theme,
    keys: () => document.getElementById("keys")?.showModal(),
    all: (button) => {
      for (const box of document.querySelectorAll("input[data-select]")) box.checked = button.checked;
      counted();
    },
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-does]");
    if (button?.dataset.copy !== undefined) copy(button);
    else if (button) deeds[button.dataset.does]?.(button);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-select]")) counted();
    if (event.target.matches("[data-sends]")) event.target.form.requestSubmit();
  });

  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (document.querySelector("dialog[open]")) return;
    const key = event.key;
    const place = before === "g" && document.querySelector(`nav a[data-key="${CSS.escape(key)}"]`);
    before = key;
    if (place) place.click();
    else if (key === "/") document.getElementById("search")?.focus();
    else if (key === "?") deeds.keys();
    else if (key === "j") mark(at + 1);
    else if (key === "k") mark(Math.max(0, at - 1));
    else if (key === "x" && at >= 0) select(rows()[at]);
    else if (key === "r") htmx.trigger(document.body, "homing:look");
    else if (key === "Enter" && at >= 0 && event.target === document.body) rows()[at].querySelector("a").click();
    else return;
    event.preventDefault();
  });

  listen();
})();
