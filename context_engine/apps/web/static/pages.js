// Every page works without this script; it only saves keystrokes and clicks.
"use strict";

// "/" leads to the question, as in many search pages.
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  const question = document.getElementById("q");
  if (event.key !== "/" || typing || !question || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  question.focus();
  question.select();
});

// Fields that are empty stay out of the address.
for (const form of document.querySelectorAll("form[data-ask]")) {
  form.addEventListener("submit", () => {
    for (const field of form.querySelectorAll("select, input:not([type=checkbox])")) field.disabled = !field.value;
  });
}
window.addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-ask] :disabled:not(option)")) field.disabled = false;
});

// Suggestions as one types.
const question = document.getElementById("q");
const list = document.getElementById("suggestions");
if (question && list) {
  let waiting = 0;
  question.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      const asked = new URLSearchParams({ domain: document.getElementById("domain").value, q: question.value });
      const answer = await fetch(`/suggest?${asked}`).catch(() => null);
      if (!answer || !answer.ok) return;
      const { suggestions } = await answer.json();
      list.replaceChildren(...suggestions.map((text) => Object.assign(document.createElement("option"), { value: text })));
    }, 150);
  });
}

// Thumbs without leaving the page.
for (const form of document.querySelectorAll("form[data-thumbs]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter;
    const fields = new URLSearchParams(new FormData(form, button));
    const answer = await fetch(form.action, { method: "POST", body: fields, headers: { Accept: "application/json" } }).catch(() => null);
    const kept = answer !== null && answer.ok;
    for (const other of form.querySelectorAll("button")) other.setAttribute("aria-pressed", String(kept && other === button));
    form.querySelector("[role=status]").textContent = kept ? "Thank you" : "Not kept";
  });
}

// A link is copied with a click; without a clipboard it is followed.
for (const link of document.querySelectorAll("a[data-copy]")) {
  link.addEventListener("click", async (event) => {
    if (!navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const text = link.textContent;
    const copied = await navigator.clipboard.writeText(link.href).then(() => true, () => false);
    if (!copied) { location.href = link.href; return; }
    link.textContent = "Copied";
    setTimeout(() => { link.textContent = text; }, 1600);
  });
}

// The page of a job that runs shows its progress, and keeps what is being typed until the run has ended.
async function follow() {
  const answer = await fetch(location.href).catch(() => null);
  const next = answer?.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
  if (next && !next.querySelector("[data-running]")) return location.reload();
  for (const part of next ? document.querySelectorAll("[data-live]") : []) {
    const newer = next.getElementById(part.id);
    if (newer && !part.contains(document.activeElement)) part.replaceWith(document.adoptNode(newer));
  }
  setTimeout(follow, 2000);
}
if (document.querySelector("[data-running]")) setTimeout(follow, 2000);
