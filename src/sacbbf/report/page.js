// Sorts a table by the column whose heading is pressed: numbers high to low first, names from A; no score goes last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.querySelectorAll("thead th")];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const first = column === 0 ? "ascending" : "descending";
    const other = column === 0 ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    const sign = order === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const value = (row) => row.cells[column].dataset.value;
    const compare = (a, b) => {
      if (value(a) === "" || value(b) === "") return (value(a) === "") - (value(b) === "");
      return sign * (column === 0 ? value(a).localeCompare(value(b)) : value(a) - value(b));
    };
    body.append(...[...body.rows].sort(compare));
    heads.forEach((one) => one.setAttribute("aria-sort", one === head ? order : "none"));
    document.getElementById("sorted").textContent = `sorted by ${head.textContent}, ${order}`;
  }));
}
