for (const table of document.querySelectorAll("table")) {
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (!head) return;
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.cells[head.cellIndex].textContent;
    const number = (text) => parseFloat(text.replace("−", "-").replace(/[^0-9.+-]/g, ""));
    const compare = (one, other) => {
      const [a, b] = [number(value(one)), number(value(other))];
      return isNaN(a) || isNaN(b) ? value(one).localeCompare(value(other)) : a - b;
    };
    const rows = [...table.tBodies[0].rows].sort((one, other) => (down ? -1 : 1) * compare(one, other));
    table.tBodies[0].append(...rows);
  });
}
