"""What the watching server answers: runs and sweeps as their files have them, and nothing else of the disk."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import socket
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest

from sacbbf.cli import run
from sacbbf.disk.lease import Lease
from sacbbf.run.records import RunDirectory
from sacbbf.sweep.directory import SweepDirectory
from sacbbf.sweep.spec import Spec, Variant
from sacbbf.watch import sight
from sacbbf.watch.server import MOST
from sacbbf.watch.sight import POINTS, overview, thin


def ask(address, path, host=None):
    """Status, headers and body of an answer."""
    request = urllib.request.Request(address + path, headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def ask_json(address, where, **query):
    status, headers, body = ask(address, f"{where}?{urlencode(query)}")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    return json.loads(body)


# --- runs ---


def test_the_overview_has_every_run_in_a_line(serve, top, finished_run):
    found = ask_json(serve(top), "/api/overview")
    assert found["directory"] == str(top) and found["sweeps"] == []
    runs = {one["path"]: one for one in found["runs"]}
    assert runs.keys() == {"pole", "again/pole", "<script>alert(1)", "broken"}
    result = json.loads(finished_run.result.read_text())
    pole = runs["pole"]
    assert (pole["env"], pole["agent"], pole["size"], pole["seed"]) == ("toys/Identity-v0", "sac-bbf", "tiny-paper", 0)
    assert (pole["state"], pole["step"], pole["steps"]) == ("finished", 200, 200)
    assert (pole["score"], pole["interval"]) == (result["score"], result["interval_95"])
    assert pole["last_score"] == json.loads((top / "pole/episodes.jsonl").read_text().splitlines()[-1])["score"]
    assert runs["broken"]["state"] == "unreadable" and "is not a configuration" in runs["broken"]["why"]


def test_the_score_of_a_single_episode_has_no_interval(serve, top):
    path = top / "pole/result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"episodes": 1}))
    (found,) = ask_json(serve(top / "pole"), "/api/overview")["runs"]
    assert found["score"] is not None and found["interval"] is None


def test_a_run_that_is_written_is_running_and_one_that_is_left_has_stopped(serve, top, grow):
    address = serve(top / "pole")
    (top / "pole/result.json").unlink()
    step = grow(top / "pole", 1, 0.0)
    with Lease.acquire(top / "pole"):
        (found,) = ask_json(address, "/api/overview")["runs"]
        assert (found["path"], found["state"], found["score"]) == ("pole", "running", None)
        assert found["step"] == step > 200
    assert ask_json(address, "/api/overview")["runs"][0]["state"] == "stopped"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("speed.jsonl", '{"step": null}\n'),
        ("episodes.jsonl", '{"step": "many"}\n'),
        ("result.json", "[]"),
        ("config.toml", None),  # a directory
    ],
)
def test_a_run_whose_files_make_no_sense_is_unreadable_and_no_other(name, content, serve, top):
    (top / "pole/result.json").unlink()
    path = top / "pole" / name
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
        (top / "pole/result.json").write_text("{}")  # by which it is known as a run
    else:
        path.write_text(content)
    runs = {one["path"]: one for one in ask_json(serve(top), "/api/overview")["runs"]}
    assert runs["pole"]["state"] == "unreadable" and runs["pole"]["why"]
    assert runs["again/pole"]["state"] == "finished"


def test_blind_play_trains_nothing(serve, top):
    """The search for the best mix takes steps, which are not those of training."""
    config = (top / "pole/config.toml").read_text()
    (top / "pole/config.toml").write_text(config.replace('agent = "sac-bbf"', 'agent = "blind"'))
    result = json.loads((top / "pole/result.json").read_text())
    (top / "pole/result.json").write_text(json.dumps(result | {"steps": 7_000}))
    (found,) = ask_json(serve(top / "pole"), "/api/overview")["runs"]
    assert (found["agent"], found["step"], found["steps"]) == ("blind", 0, 0)


def test_files_that_have_not_changed_are_read_once(top, grow, monkeypatch):
    shutil.rmtree(top / "broken")
    from_toml, read_result, reads = sight.from_toml, RunDirectory.read_result, []
    monkeypatch.setattr(sight, "from_toml", lambda path: (reads.append(path.name), from_toml(path))[1])
    monkeypatch.setattr(RunDirectory, "read_result", lambda run: (reads.append("result"), read_result(run))[1])
    first = overview(top)
    assert sorted(reads) == ["config.toml"] * 3 + ["result"] * 3
    assert overview(top) == overview(top) == first and len(reads) == 6
    step = grow(top / "pole", 1, 55.5)
    result = json.loads((top / "again/pole/result.json").read_text())
    (top / "again/pole/result.json").write_text(json.dumps(result | {"score": 78.25}))
    runs = {one["path"]: one for one in overview(top)["runs"]}
    assert len(reads) == 10 and step > 200
    assert (runs["pole"]["last_score"], runs["again/pole"]["score"]) == (55.5, 78.25)


def test_an_empty_directory_has_no_runs(serve, tmp_path):
    (tmp_path / "empty").mkdir()
    found = ask_json(serve(tmp_path / "empty"), "/api/overview")
    assert found["runs"] == found["sweeps"] == []


def test_a_run_has_its_curves_and_latest_episodes(serve, top):
    found = ask_json(serve(top), "/api/run", path="pole")
    assert set(found["curves"]) == {"training score", "evaluation", "policy entropy", "updates per second"}
    assert [step for step, _ in found["curves"]["evaluation"]] == [50, 100, 150]
    assert all(found["curves"].values())
    lines = [json.loads(line) for line in (top / "pole/episodes.jsonl").read_text().splitlines()]
    assert found["latest"] == [[line["step"], line["score"]] for line in lines[-12:][::-1]]
    recent = [line["score"] for line in lines[-10:]]
    assert found["curves"]["training score"][-1] == [lines[-1]["step"], pytest.approx(sum(recent) / 10)]
    assert found["files"] == ["video.mp4", "curve.png"]


def test_runs_of_one_name_are_told_apart(serve, top):
    address = serve(top)
    assert ask_json(address, "/api/run", path="again/pole")["score"] == 77.5
    assert ask_json(address, "/api/run", path="pole")["score"] != 77.5


def test_curves_are_thinned_and_keep_their_last_point(serve, top, grow):
    step = grow(top / "pole", 1_999, 3.0)
    curve = ask_json(serve(top), "/api/run", path="pole")["curves"]["training score"]
    assert 200 < len(curve) <= POINTS
    assert curve[-1] == [step, pytest.approx(3.0)]
    assert [one for one, _ in curve] == sorted(one for one, _ in curve)


@pytest.mark.parametrize("count", [0, 1, 399, 400, 401, 800, 801, 12_345])
def test_thinning_keeps_what_there_is_room_for(count):
    points = [[float(number), 0.0] for number in range(count)]
    found = thin(points)
    assert len(found) <= POINTS and found[-1:] == points[-1:]
    if count <= POINTS:
        assert found == points
    else:
        assert len(found) >= POINTS / 2


def test_a_line_that_is_being_written_is_left_out(serve, top):
    address = serve(top)
    before = ask_json(address, "/api/run", path="pole")
    with (top / "pole/episodes.jsonl").open("a") as file:
        file.write('{"step": 9999, "sco')
    assert ask_json(address, "/api/run", path="pole")["latest"] == before["latest"]


def test_records_that_cannot_be_read_are_told(serve, top):
    (top / "pole/episodes.jsonl").write_text("no line of a record\n")
    status, _, body = ask(serve(top), "/api/run?path=pole")
    assert status == 404 and b"the records of 'pole' cannot be read" in body


# --- sweeps ---


def test_a_sweep_shows_how_far_it_has_come(serve, tmp_path):
    spec = Spec(("CartPole-v1",), (Variant("sac-bbf"),), (0, 1, 2), "tiny", 150, {}, 1, "cpu")
    SweepDirectory(tmp_path / "ladder").begin(spec)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/sweep.json").write_text("{}")
    ladder, other = ask_json(serve(tmp_path), "/api/overview")["sweeps"]
    assert (ladder["path"], ladder["step"], ladder["steps"]) == ("ladder", 0, 450)
    assert ladder["counts"] == {"finished": 0, "running": 0, "stopped": 0, "failed": 0, "waiting": 3}
    assert other["path"] == "other" and "is not the manifest" in other["why"]


def test_the_progress_of_a_sweep_is_that_of_its_training(serve, tmp_path, monkeypatch):
    """Steps of blind play are left out, and a manifest that has not changed is read once."""
    spec = Spec(("CartPole-v1",), (Variant("sac-bbf"), Variant("blind")), (0,), "tiny", 150, {}, 1, "cpu")
    directory = SweepDirectory(tmp_path / "ladder")
    directory.begin(spec)
    read, reads = SweepDirectory.read, []
    monkeypatch.setattr(SweepDirectory, "read", lambda self: (reads.append(self), read(self))[1])
    for cell, steps in zip(spec.cells(), (150, 7_000), strict=True):
        directory.run(cell).path.mkdir(parents=True)
        directory.run(cell).result.write_text(json.dumps({"finished": True, "steps": steps, "score": 1.0}))
    address = serve(tmp_path)
    for _ in range(2):
        (found,) = ask_json(address, "/api/overview")["sweeps"]
        assert (found["step"], found["steps"], found["counts"]["finished"]) == (150, 150, 2)
    assert len(reads) == 1
    directory.begin(Spec(**{**vars(spec), "seeds": (0, 1)}))
    before = len(reads)
    (found,) = ask_json(address, "/api/overview")["sweeps"]
    assert (found["step"], found["steps"]) == (150, 300) and len(reads) == before + 1


# --- files, and what is refused ---


def test_pictures_and_videos_are_served(serve, top):
    address = serve(top)
    status, headers, body = ask(address, "/file?path=pole&name=video.mp4")
    assert (status, headers["Content-Type"], body) == (200, "video/mp4", b"moving pictures")
    status, headers, body = ask(address, "/file?path=pole&name=curve.png")
    assert (status, headers["Content-Type"]) == (200, "image/png") and body.startswith(b"\x89PNG")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/file?path=pole&name=config.toml",
        "/file?path=pole&name=policy.safetensors",
        "/file?path=pole&name=../pole/video.mp4",
        "/file?path=pole&name=",
        "/file?path=again/pole&name=video.mp4",  # it has none
        "/file?path=../runs/pole&name=video.mp4",
        "/file?path=again/../pole&name=video.mp4",
        "/file?path=&name=video.mp4",
        "/file",
        "/api/run?path=..",
        "/api/run?path=/etc",
        "/api/run",
        "/../../etc/passwd",
        "/runs/pole/video.mp4",
        "/api",
    ],
)
def test_nothing_else_is_served(path, serve, top):
    status, _, body = ask(serve(top), path)
    assert status == 404 and b"moving" not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::2]"])
def test_another_sites_name_is_refused(host, serve, top):
    address = serve(top)
    for path in ("/", "/api/overview", "/file?path=pole&name=video.mp4"):
        status, _, body = ask(address, path, host)
        assert status == 403 and b"moving" not in body
    assert ask(address, "/api/overview", "localhost:8100")[0] == 200


def test_links_out_of_the_directory_lead_nowhere(serve, top, tmp_path):
    shutil.copytree(top / "pole", tmp_path / "private")
    (tmp_path / "private/video.mp4").write_bytes(b"moving secrets")
    (top / "linked").symlink_to(tmp_path / "private")
    (top / "circle").symlink_to(top)
    (top / "swept").symlink_to(tmp_path / "private")
    (tmp_path / "private/sweep.json").write_text("{}")
    (top / "pole/curve.png").unlink()
    (top / "pole/curve.png").symlink_to(tmp_path / "private/curve.png")
    (top / "pole/video.mp4").unlink()
    (top / "pole/video.mp4").symlink_to(tmp_path / "private/video.mp4")
    address = serve(top)
    found = ask_json(address, "/api/overview")
    assert {one["path"] for one in found["runs"]} == {"pole", "again/pole", "<script>alert(1)", "broken"}
    assert found["sweeps"] == []
    for path in ("linked", "circle/pole", "pole"):
        for name in ("video.mp4", "curve.png"):
            status, _, body = ask(address, f"/file?path={path}&name={name}")
            assert status == 404 and b"secrets" not in body and not body.startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["config.toml", "result.json", "speed.jsonl", "episodes.jsonl", "video.mp4"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(name, serve, top):
    (top / "pole" / name).unlink()
    os.mkfifo(top / "pole" / name)
    address = serve(top)
    runs = {one["path"]: one for one in ask_json(address, "/api/overview")["runs"]}
    assert runs["again/pole"]["state"] == "finished"
    assert ask(address, "/api/run?path=pole")[0] in (200, 404)
    assert ask(address, f"/file?path=pole&name={name}")[0] == 404


def test_clients_that_keep_silent_do_not_shut_others_out(serve, top):
    address = serve(top)
    host, port = address.removeprefix("http://").split(":")
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection((host, int(port)), timeout=10)) for _ in range(2 * MOST)]
        for one in idle:
            with contextlib.suppress(OSError):
                one.sendall(b"GET /api/overview HTTP/1.1\r\nHost: local")
        assert ask_json(address, "/api/overview")["runs"]
        assert idle[0].recv(1) == b""  # the oldest have made room
        before = threading.active_count()
        assert before < 2 * MOST


def test_a_client_that_keeps_silent_for_long_is_left(serve, top, monkeypatch, capfd):
    monkeypatch.setattr("sacbbf.watch.server.Handler.timeout", 0.2)
    host, port = serve(top).removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert client.recv(100) == b""
    assert capfd.readouterr().err == ""


def test_many_clients_at_once_are_answered(serve, top):
    address = serve(top)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: ask(address, "/api/overview")[0], range(48)))
    assert answers == [200] * 48


def test_a_video_is_sent_in_pieces(serve, top):
    content = bytes(range(256)) * 1_000
    (top / "pole/video.mp4").write_bytes(content)
    assert ask(serve(top), "/file?path=pole&name=video.mp4")[2] == content


def test_the_page_may_run_its_own_script_alone(serve, top):
    _, headers, body = ask(serve(top), "/")
    policy = headers["Content-Security-Policy"]
    script = body.decode().partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2]


def raw(address, request):
    """Answer to a request that no library would send."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline()


@pytest.mark.parametrize("host", [b"[::1", b"[", b"[x]y", b""])
def test_a_host_that_is_no_name_is_refused(host, serve, top, capfd):
    address = serve(top)
    answer = raw(address, b"GET /api/overview HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
    assert answer.split()[1] == b"403"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [OSError("disk lost"), ValueError("no number"), TypeError("no text")])
def test_what_cannot_be_read_has_a_short_answer(error, serve, top, monkeypatch, capfd):
    def fail(*args):
        raise error

    for name in ("overview", "run_details"):
        monkeypatch.setattr(f"sacbbf.watch.server.{name}", fail)
    address = serve(top)
    for path in ("/api/overview", "/api/run?path=pole"):
        assert ask(address, path)[::2] == (500, f"this cannot be read: {error}".encode())
    assert ask(address, "/")[0] == 200
    assert capfd.readouterr().err == ""


def test_an_address_that_is_none_has_a_short_answer(serve, top, capfd):
    answer = raw(serve(top), b"GET //[ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert answer.split()[1] in (b"404", b"500")
    assert capfd.readouterr().err == ""


def test_a_browser_that_goes_away_is_no_news(serve, top, monkeypatch, capfd):
    def leave(*args):
        raise ConnectionResetError

    monkeypatch.setattr("sacbbf.watch.server.Handler.handle_one_request", leave)
    with pytest.raises(OSError):
        ask(serve(top), "/api/overview")
    assert capfd.readouterr().err == ""


def test_any_name_will_do_where_the_network_was_asked_for(serve, top):
    assert ask(serve(top, "0.0.0.0"), "/api/overview", "box.example")[0] == 200


def test_the_page_is_one_piece(serve, top):
    status, headers, body = ask(serve(top), "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    text = body.decode()
    assert "page.css" not in text and "page.js" not in text and "http://" not in text.replace("http://www.w3.org", "")


# --- sacbbf watch ---


def test_watch_refuses_bad_words(tmp_path, capsys):
    for words, message in {
        ("nowhere",): "nowhere: no such directory",
        (str(tmp_path), "--port", "70000"): "port = 70000: must be in 0 .. 65535",
    }.items():
        assert run(["watch", *words]) == 2
        assert message in capsys.readouterr().err


def test_watch_says_that_a_port_is_taken(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["watch", str(tmp_path), "--port", str(port)]) == 2
    assert f"cannot serve at 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_watch_serves_until_it_is_interrupted(host, warned, tmp_path, capsys, monkeypatch):
    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("sacbbf.watch.server.Server.serve_forever", interrupt)
    assert run(["watch", str(tmp_path), "--host", host, "--port", "0"]) == 0
    said = capsys.readouterr().out
    assert f"http://{host}:" in said and str(tmp_path) in said
    assert ("everybody who can reach" in said) == warned
