"use strict";
(function () {
  // The page is whole without this: search in the table, and what a cell of the map stands for. Text only, never markup.
  var form = document.querySelector(".find"), table = document.querySelector(".parts");
  if (form && table) {
    var rows = Array.prototype.slice.call(table.tBodies[0].rows), texts = null, timer = 0;
    var input = form.querySelector("input"), select = form.querySelector("select"), output = form.querySelector("output");
    var apply = function () {
      texts = texts || rows.map(function (row) { return row.textContent.toLowerCase(); });
      var words = input.value.toLowerCase().split(/\s+/).filter(Boolean), verdict = select.value, shown = 0;
      rows.forEach(function (row, index) {
        var fits = (!verdict || row.cells[0].textContent.trim() === verdict) && words.every(function (word) { return texts[index].indexOf(word) >= 0; });
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      });
      output.textContent = words.length || verdict ? shown + " of " + rows.length : "";
    };
    form.hidden = false;
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    input.addEventListener("input", function () { clearTimeout(timer); timer = setTimeout(apply, 120); });
    select.addEventListener("change", apply);
  }
  var tip = document.getElementById("tip"), heads = [];
  if (!tip || !table) { return; }
  Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell) {
    for (var n = 0; n < cell.colSpan; n++) { heads.push(n ? "" : cell.textContent); }
  });
  document.querySelectorAll(".map a[title]").forEach(function (link) { link.removeAttribute("title"); });
  var show = function (cell, x, y) {
    var row = document.getElementById("g" + cell.dataset.g);
    if (!row) { return; }
    var texts = Array.prototype.map.call(row.cells, function (value) { return value.textContent.trim(); });
    var known = function (text) { return text && text !== "\u2013"; };
    var say = function (tag, text) { var line = document.createElement(tag); line.textContent = text; tip.appendChild(line); };
    tip.textContent = "";
    say("b", texts[2] + " \u00b7 slot " + texts[3]);
    say("div", texts[0] + (texts[5] ? "  " + texts[5] : ""));
    if (known(texts[4])) { say("div", "serial " + texts[4]); }
    for (var n = 6; n < texts.length - 2; n += 2) {
      if (known(texts[n])) { say("div", heads[n] + "  " + texts[n] + (known(texts[n + 1]) ? "  " + texts[n + 1] + " %" : "")); }
    }
    if (known(texts[texts.length - 2])) { say("div", texts[texts.length - 2] + " \u00b0C"); }
    tip.hidden = false;
    tip.style.left = Math.max(8, Math.min(x + 14, window.innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(8, y + 18 + tip.offsetHeight > window.innerHeight ? y - tip.offsetHeight - 10 : y + 18) + "px";
  };
  var cellOf = function (event) { return event.target.closest ? event.target.closest("td[data-g]") : null; };
  document.querySelectorAll(".map").forEach(function (map) {
    map.addEventListener("mousemove", function (event) { var cell = cellOf(event); if (cell) { show(cell, event.clientX, event.clientY); } else { tip.hidden = true; } });
    map.addEventListener("mouseleave", function () { tip.hidden = true; });
    map.addEventListener("focusin", function (event) { var cell = cellOf(event); if (cell) { var box = cell.getBoundingClientRect(); show(cell, box.left, box.bottom - 14); } });
    map.addEventListener("focusout", function () { tip.hidden = true; });
  });
}());
