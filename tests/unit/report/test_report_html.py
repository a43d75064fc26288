"""The page: what stands in it, where, and that nothing hostile gets out of its text."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from burnin.errors import RunFolderError
from burnin.report import html
from burnin.report.series import Series, parse_samples
from unit.report import documents

Json = dict[str, Any]
VOID = {"meta", "link", "br", "input", "img", "path", "circle", "line", "rect", "use", "hr"}


@dataclasses.dataclass
class Node:
    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = dataclasses.field(default_factory=list)

    def all(self, tag: str, **wanted: str) -> list[Node]:
        found = []
        for child in self.children:
            if isinstance(child, Node):
                if child.tag == tag and all(child.attributes.get(key.rstrip("_")) == value for key, value in wanted.items()):
                    found.append(child)
                found += child.all(tag, **wanted)
        return found

    def classed(self, name: str) -> list[Node]:
        inner = [child for child in self.children if isinstance(child, Node)]
        own = [child for child in inner if name in child.attributes.get("class", "").split()]
        return own + [found for child in inner for found in child.classed(name)]

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Page(HTMLParser):
    """A tree, good enough for what we write: cells and rows may be left open."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("root", {})
        self.open = [self.root]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "tr"):
            while self.open[-1].tag == "td" or (tag == "tr" and self.open[-1].tag == "tr"):
                self.open.pop()
        node = Node(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in [node.tag for node in self.open]:
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


@pytest.fixture(scope="module")
def series() -> dict[str, Series]:
    return {gpu: one for text in documents.demo_samples().values() for gpu, one in parse_samples(text).items()}


@pytest.fixture(scope="module")
def demo_text(series: dict[str, Series]) -> str:
    return html.render(documents.demo(), run=documents.run_record(), series=series)


@pytest.fixture(scope="module")
def demo(demo_text: str) -> Node:
    return Page(demo_text).root


def cards(page: Node) -> dict[str, Node]:
    return {card.all("h4")[0].text: card for card in page.all("article")}


def test_the_headline_says_what_goes_back(demo: Node) -> None:
    assert demo.all("h1")[0].text == "3 of 32 GPUs go back; no node is ready for work."
    assert demo.classed("lead")[0].text == "1 is missing, 8 could not be judged, 1 deserves a look and 19 are shown to be good."


def test_the_headline_of_a_good_rack_and_of_an_empty_run() -> None:
    good = documents.document([documents.gpu(1, 0, [documents.performance("gemm_bf16", 0.1)])], [])
    both = documents.document([documents.gpu(1, slot, [documents.performance("gemm_bf16", 0.1)]) for slot in (0, 1)], [])

    assert Page(html.render(good)).root.all("h1")[0].text == "The GPU is shown to be good."
    assert Page(html.render(both)).root.all("h1")[0].text == "All 2 GPUs are shown to be good."
    assert Page(html.render(documents.document([], []))).root.all("h1")[0].text == "No GPU was judged: nothing was shown."


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        pytest.param(
            {1: "RMA", 2: "PASS", 3: "REVIEW"}, "1 of 3 GPUs goes back; 2 of 3 nodes are ready for work.", id="a node holds the RMA"
        ),
        pytest.param({1: "RETEST", 2: "PASS", 3: "FAIL"}, "None of 3 GPUs goes back; 1 of 3 nodes is ready for work.", id="one left"),
        pytest.param({1: "REVIEW", 2: "PASS"}, "None of 2 GPUs goes back; all 2 nodes are ready for work.", id="all"),
        pytest.param({1: "RMA"}, "1 of 1 GPU goes back; the node is not ready for work.", id="the only one"),
    ],
)
def test_a_node_is_ready_only_with_all_its_gpus(verdicts: dict[int, str], said: str) -> None:
    gpus = [documents.gpu(node, 0, [], verdict) for node, verdict in verdicts.items()]
    nodes = [{"node": f"demo-{node:02d}", "rack": "A1", "verdict": "PASS", "findings": []} for node in verdicts]

    assert Page(html.render(documents.document(gpus, nodes))).root.all("h1")[0].text == said


def test_a_node_that_shows_no_gpu_is_not_ready() -> None:
    nodes = [{"node": name, "rack": "A1", "verdict": "PASS", "findings": []} for name in ("demo-01", "bare")]
    page = Page(html.render(documents.document([documents.gpu(1, 0, [])], nodes))).root

    assert page.all("h1")[0].text == "None of 1 GPU goes back; 1 of 2 nodes is ready for work."


def test_a_simulated_rack_is_told_before_all_else_and_notes_stand_under_the_header(demo: Node) -> None:
    page = Page(html.render({**documents.demo(), "simulated": True, "notes": ["A copy of another run's evidence.", 7]})).root

    assert page.all("main")[0].text.split("\n")[1] == "Simulated rack: no part here is real"
    assert page.all("title")[0].text.startswith("Simulated: burn-in ")
    assert [item.text for item in page.classed("notes")[0].all("li")] == ["A copy of another run's evidence."]
    assert not demo.classed("simulated")
    assert not demo.classed("notes")


def test_run_time_plan_and_policy_are_named(demo: Node) -> None:
    shown = demo.classed("run")[0].text

    for word in ("20261201T101500Z-4f9a1c", "2026-12-01 10:15 UTC", "acceptance (gemm_bf16, hbm_copy, pcie_h2d, restarts)", "default"):
        assert word in shown


def test_the_counts_are_those_of_the_list(demo: Node) -> None:
    counts = {item.classed("w")[0].text: item.classed("n")[0].text for item in demo.classed("counts")[0].all("li")}

    assert counts == {"RMA": "3", "FAIL": "1", "RETEST": "0", "INCONCLUSIVE": "8", "REVIEW": "1", "PASS": "19"}


def test_every_gpu_is_a_cell_in_both_maps(demo: Node) -> None:
    maps = demo.classed("map")

    assert len(maps) == 2
    for one in maps:
        assert sorted(int(cell.attributes["data-g"]) for cell in one.all("td")) == list(range(32))


def test_the_map_draws_the_missing_the_dead_and_the_flagged_apart(demo: Node) -> None:
    cells = {int(cell.attributes["data-g"]): cell for cell in demo.classed("map")[0].all("td")}
    classes = {index: cell.attributes["class"].split() for index, cell in cells.items()}

    assert "gone" in classes[2 * 8 + 5]
    assert all("dead" in classes[24 + slot] for slot in range(8))
    assert classes[3] == ["d0", "f", "c-RMA"]
    assert cells[3].text == "−8.1"
    assert classes[0] in (["d7"], ["d8"])
    assert not [index for index in range(24) if index not in (3, 7, 14, 17, 21) and "f" in classes[index]]


def test_a_flagged_cell_leads_to_the_card_of_its_gpu(demo: Node) -> None:
    cell = next(cell for cell in demo.classed("map")[0].all("td") if cell.attributes["data-g"] == "3")
    target = cell.all("a")[0].attributes["href"]

    card = demo.all("article", id=target[1:])[0]

    assert documents.serial(1, 3) in card.text


def test_cards_are_worst_first_and_grouped(demo: Node) -> None:
    assert [card.all("h4")[0].text for card in demo.all("article")] == [
        "demo-01 · slot 3",
        "demo-02 · slot 6",
        "demo-03 · slot 1",
        "Node demo-03",
        "Node demo-04",
        "demo-01 · slot 7",
    ]
    assert [group.classed("badge")[0].text for group in demo.classed("group")] == ["RMA", "FAIL", "INCONCLUSIVE", "REVIEW"]


def test_a_card_says_who_why_and_what_to_do(demo: Node) -> None:
    text = cards(demo)["demo-01 · slot 3"].text

    for word in (
        documents.serial(1, 3),
        documents.uuid(1, 3),
        "00000000:4A:00.0",
        "cause: silicon",
        "gemm_bf16 ran 8.06 % below the median",
        "Send this GPU back",
        "docs/runbooks/PERF_BELOW_MEDIAN.md",
        "672.1 TFLOPS",
        "−8.06 %",
    ):
        assert word in text


def test_the_gpus_of_a_dead_node_stand_on_its_card(demo: Node) -> None:
    text = cards(demo)["Node demo-04"].text

    assert "8 GPUs explained by this: 8 INCONCLUSIVE" in text
    assert all(documents.serial(4, slot) in text for slot in range(8))
    assert "samples.csv ends in the middle of line" in text
    assert "no samples after 17.3 min" in text


def test_the_missing_gpu_stands_on_its_nodes_card(demo: Node) -> None:
    assert "1 GPU explained by this: 1 FAIL" in cards(demo)["Node demo-03"].text


def test_a_card_has_three_charts_with_peers_and_throttle_bands(demo: Node) -> None:
    hot = cards(demo)["demo-02 · slot 6"]
    cool = cards(demo)["demo-01 · slot 3"]

    assert [figure.all("b")[0].text for figure in hot.all("figure")] == ["Temperature", "Power", "SM clock"]
    assert len(hot.all("path", class_="own")) == len(hot.all("path", class_="peers")) == 3
    assert hot.all("rect", class_="t-hw")
    assert not cool.all("rect", class_="t-hw")
    assert "slot 6 in 2 other nodes" in hot.text


def test_a_gpu_without_a_verdict_is_hatched_over_the_little_that_is_known() -> None:
    few = documents.performance("gemm_bf16", -0.4, code="TOO_FEW_WINDOWS", outcome="INCONCLUSIVE")
    page = Page(html.render(documents.document([documents.gpu(1, 0, [few, documents.heat(60)], "INCONCLUSIVE")], []))).root
    cells = [one.all("td")[0] for one in page.classed("map")]

    assert [cell.attributes["class"].split()[:2] for cell in cells] == [["dead", "d7"], ["dead", "t0"]]
    assert [cell.text.strip() for cell in cells] == ["−0.4", "60"]
    assert not page.classed("named")


def test_one_action_is_said_once() -> None:
    wrong = [documents.finding("WRONG_RESULT", "RMA", test=test, why=f"{test} was wrong.", action="Send it back.") for test in ("a", "b")]
    card = Page(html.render(documents.document([documents.gpu(1, 0, wrong, "RMA")], []))).root.all("article")[0]

    assert [why.text for why in card.classed("why")] == ["a was wrong.", "b was wrong."]
    assert [action.text for action in card.classed("action")] == ["Send it back."]


def test_the_same_finding_in_two_tests_names_the_tests() -> None:
    wrong = [
        documents.finding("WRONG_RESULT", "RMA", test=test, why=f"{count} of 300 checked results were wrong.")
        for test, count in (("gemm_bf16", 67), ("hbm_copy", 11))
    ]
    both, alone = documents.gpu(1, 0, wrong, "RMA"), documents.gpu(1, 1, wrong[:1], "RMA")
    page = Page(html.render(documents.document([both, alone], []))).root

    assert [why.text for why in page.classed("why")] == [
        "gemm_bf16: 67 of 300 checked results were wrong.",
        "hbm_copy: 11 of 300 checked results were wrong.",
        "67 of 300 checked results were wrong.",
    ]


def test_the_limits_of_the_verdict_itself_come_first() -> None:
    judged = documents.demo()
    judged["policy"]["limits"] = {"perf_below_median_pct": {"value": 4.0, "unit": "%", "why": "ours", "source": "us"}}
    page = Page(html.render(judged, run=documents.run_record())).root

    assert [cell.text for cell in page.classed("limits")[0].all("td")] == ["perf_below_median_pct", "4", "%", "ours", "us"]


def test_a_run_without_samples_says_so_and_has_no_charts() -> None:
    page = Page(html.render(documents.demo())).root

    assert not page.all("path", class_="own")
    assert "Time series of 4 flagged GPUs for which no samples were at hand." in page.text


def test_a_distribution_marks_the_flagged_and_labels_line_and_median(demo: Node) -> None:
    chart = next(figure for figure in demo.all("figure") if figure.all("b") and figure.all("b")[0].text == "gemm_bf16")

    assert "median  731.0" in chart.text
    assert "−5 % line  694.4" in chart.text
    assert len(chart.all("circle", class_="vote")) == 19
    assert sorted(use.attributes["href"] for use in chart.all("svg")[0].all("use")) == ["#v-REVIEW", "#v-RMA", "#v-RMA", "#v-RMA"]
    assert "demo-02 · slot 6 −11.42 %" in chart.text


@pytest.mark.parametrize(
    ("cohort", "said"),
    [
        pytest.param({"size": 30}, "of 30 GPUs in 4 nodes, robust sigma 0.41 %; 31 measured, a condemned GPU does not vote", id="one"),
        pytest.param({"size": 28}, "of 28 GPUs in 4 nodes, robust sigma 0.41 %; 31 measured, condemned GPUs do not vote", id="three"),
        pytest.param({"size": 31}, "of 31 GPUs in 4 nodes, robust sigma 0.41 %", id="all"),
        pytest.param({"referenced": True}, "of the reference run, robust sigma 0.41 %; 31 measured", id="reference"),
    ],
)
def test_a_distribution_says_what_its_median_rests_on(cohort: Json, said: str) -> None:
    judged = documents.document([documents.gpu(1, slot, [documents.performance("gemm_bf16", slot / 10 - 1.5)]) for slot in range(31)], [])
    judged["cohorts"][0].update(cohort, sigma_pct=0.41)
    figure = Page(html.render(judged)).root.classed("chart")[0]

    assert figure.all("figcaption")[0].all("span")[0].text.endswith(said)


def test_the_table_has_every_gpu_worst_first(demo: Node) -> None:
    rows = demo.classed("parts")[0].all("tbody")[0].all("tr")

    assert len(rows) == 32
    assert [row.all("td")[0].text.strip() for row in rows[:4]] == ["RMA", "RMA", "RMA", "FAIL"]
    assert len({row.attributes["id"] for row in rows}) == 32


def test_limits_and_what_is_not_shown_close_the_page(demo: Node) -> None:
    limits = [[cell.text for cell in row.all("td")[:3]] for row in demo.classed("limits")[0].all("tbody")[0].all("tr")]

    assert limits == [["below_median", "5", "%"], ["heat · margin", "5", "°C"], ["windows_over_line", "3", "windows"]]
    assert "Disks and links: none was judged in this run." in demo.classed("plain")[-1].text


def test_the_page_asks_for_nothing(demo_text: str) -> None:
    assert not re.findall(r"(?:src|href)=[\"']?(?!#)[a-z]+:", demo_text)
    assert "url(" not in demo_text
    assert "@import" not in demo_text
    assert "default-src 'none'" in demo_text


def test_hostile_text_is_shown_and_is_no_markup() -> None:
    page = Page(html.render(documents.hostile())).root
    honest = Page(html.render(documents.demo())).root

    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert {attribute for node in everything(page) for attribute in node.attributes} <= {
        attribute for node in everything(honest) for attribute in node.attributes
    } | {"colspan"}
    text = page.text
    for shown in ("<script>window.pwned=1</script>", "=1+1", "2001:db8::17", "[C4]:AA-BB-11:FR22", "{{ 7*7 }}{% raw %}", "]]>&amp;<!--"):
        assert shown in text


def test_characters_that_hide_or_turn_text_are_replaced() -> None:
    text = html.render(documents.hostile())

    assert not re.search("[\x00\x07\x1b\u202e\ud800]", text)
    assert "a\ufffdtxt.exe" in text
    text.encode("utf-8")


def test_no_zero_has_a_sign_and_every_sign_is_a_minus() -> None:
    listed = [
        documents.gpu(
            1,
            slot,
            [
                documents.performance(
                    "gemm_bf16", pct, code="PERF_BELOW_MEDIAN", outcome="REVIEW", why=f"{pct:.1f} % (-7 before) in node-01."
                ),
                documents.heat(temp),
            ],
            "REVIEW",
        )
        for slot, pct, temp in ((0, -0.004, -0.3), (1, -0.04, -12.0))
    ]
    text = Page(html.render(documents.document(listed, []))).root.all("main")[0].text

    assert not re.search(r"(?<![\w-])[-\N{MINUS SIGN}]0(\.0+)?(?![.\d])", text)
    assert not re.search(r"(?<![\w-])-\d", text)
    assert "\N{MINUS SIGN}12" in text
    assert "0.0 % (\N{MINUS SIGN}7 before) in node-01." in text


def test_long_names_are_bounded() -> None:
    assert "x" * 601 not in html.render(documents.hostile())


def test_no_nan_anywhere() -> None:
    broken = documents.demo()
    for entry in broken["gpus"]:
        for finding in entry["findings"]:
            finding.update(value=float("nan"), deviation_pct=float("inf"), median=float("-inf"))
            finding["evidence"] = {"temp_c": float("nan"), "power_w": 10**400}
    broken["cohorts"][0].update(median=float("nan"), line=0, sigma_pct=float("nan"))

    assert not re.search(r"(?i)\b(nan|inf|infinity)\b", Page(html.render(broken)).root.all("main")[0].text)


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param({"gpus": None}, id="no list of GPUs"),
        pytest.param({"gpus": [1, "two", {}]}, id="GPUs that are none"),
        pytest.param({"nodes": [{"node": 7}], "racks": [{}], "fleet": None, "cohorts": [{}], "policy": "x"}, id="wrong types"),
        pytest.param({"disks": [{"disk": "nvme0", "verdict": "FAIL"}], "links": [{"link": "ib0", "verdict": "RMA"}]}, id="disks and links"),
    ],
)
def test_a_document_with_holes_still_gives_a_page(spoilt: Json) -> None:
    assert "</html>" in html.render({**documents.demo(), **spoilt})


def test_a_word_that_is_no_verdict_is_not_a_pass() -> None:
    entry = documents.gpu(1, 0, [], "GREAT")

    assert "1 could not be judged" in html.render(documents.document([entry], []))


def test_another_schema_is_refused() -> None:
    with pytest.raises(RunFolderError, match=r"burnin\.verdict/2"):
        html.render({**documents.demo(), "schema": "burnin.verdict/2"})


def test_gpus_without_node_or_slot_keep_their_cells() -> None:
    listed = [
        {**documents.gpu(0, slot, [documents.performance("gemm_bf16", 0.0)]), "node": None, "slot": None, "rack": None, "position": None}
        for slot in range(40)
    ]
    page = Page(html.render(documents.document(listed, []))).root

    assert sorted(int(cell.attributes["data-g"]) for cell in page.classed("map")[0].all("td")) == list(range(40))


def test_nodes_without_a_position_stand_in_the_order_a_person_counts() -> None:
    listed = [{**documents.gpu(0, 0, [], name=name), "position": None} for name in ("n10", "n2", "n1", "x", "10", "²")]
    page = Page(html.render(documents.document(listed, []))).root

    assert [head.text for head in page.classed("map")[0].all("th", scope="row")] == ["10", "n1", "n2", "n10", "x", "²"]


def test_two_gpus_that_claim_one_slot_are_both_drawn() -> None:
    listed = [documents.gpu(1, 0, []), {**documents.gpu(1, 1, []), "slot": 0}]
    page = Page(html.render(documents.document(listed, []))).root

    assert [cell.attributes["data-g"] for cell in page.classed("map")[0].all("td")] == ["0", "1"]


def test_a_fleet_wide_fault_is_one_card_and_not_a_card_a_gpu() -> None:
    shared = documents.finding("UNDER_SHARED_FAULT", "RETEST", why="See the fleet.")
    listed = [documents.gpu(node, 0, [shared], "RETEST") for node in range(600)]
    suspect = {"verdict": "FAIL", "findings": [documents.finding("ENVIRONMENT_SUSPECT", "FAIL", why="Everything is slow.")]}
    page = Page(html.render(documents.document(listed, [], fleet=suspect))).root

    assert [card.all("h4")[0].text for card in page.all("article")] == ["The whole fleet"]
    assert "and 552 more, in the table below" in page.text


def test_cards_left_out_are_said() -> None:
    listed = [
        documents.gpu(node, 0, [documents.performance("gemm_bf16", -6.0, code="PERF_BELOW_MEDIAN", outcome="RETEST")], "RETEST")
        for node in range(512)
    ]
    page = Page(html.render(documents.document(listed, []))).root

    assert len(page.all("article")) == 500
    assert "12 flagged parts beyond the first 500 cards" in page.text
    assert "Time series of 412 flagged GPUs beyond the worst 100" in page.text


def test_the_wanted_series_are_the_flagged_and_their_sound_slot_peers() -> None:
    wanted = html.wanted_series(documents.demo())

    assert documents.uuid(1, 3) in wanted
    assert {documents.uuid(2, 3), documents.uuid(3, 3)} <= wanted
    assert {documents.uuid(4, slot) for slot in range(8)} <= wanted  # the dead node's last minutes
    assert documents.uuid(1, 0) not in wanted


def test_the_same_document_gives_the_same_bytes(demo_text: str, series: dict[str, Series]) -> None:
    assert demo_text == html.render(documents.demo(), run=documents.run_record(), series=series)


@pytest.mark.slow
def test_ten_thousand_gpus_stay_under_eight_megabytes(series: dict[str, Series]) -> None:
    fleet = documents.fleet()
    one = series[documents.uuid(2, 6)]
    text = html.render(fleet, run=documents.run_record(), series=dict.fromkeys(html.wanted_series(fleet), one))

    assert len(text.encode()) < 8e6
    assert text.count("<tr id=g") == 10_000
    assert text.count('class="own"') == 300  # 100 cards with three charts
    assert "Time series of 100 flagged GPUs beyond the worst 100" in text


def everything(node: Node) -> list[Node]:
    inner = [child for child in node.children if isinstance(child, Node)]
    return inner + [found for child in inner for found in everything(child)]
