"""A hostile stranger at the door of the page."""

from __future__ import annotations

import json
import socket
import threading
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import CANARY, COUNT, HOST, MEAN, TOKEN, plan

import tightdp.web
from tightdp.errors import ParameterError
from tightdp.ledger import Ledger
from tightdp.web import app as app_module
from tightdp.web import guard, server
from tightdp.web.app import make_app
from tightdp.web.guard import Keys, allowed_hosts
from tightdp.web.workspace import Workspace

STATIC = Path(tightdp.web.__file__).parent / "static"


def status(client, path="/api/start", body="{}", **headers):
    return client.post(path, content=body, headers=headers).status_code


@pytest.mark.parametrize("token", ["", "0123", TOKEN[:-1] + "0", "é" * 8, TOKEN + " x"])
def test_without_the_token_nothing_is_answered(client, token):
    for name in app_module._ACTS:
        assert status(client, f"/api/{name}", **{"x-tightdp": token.encode()}) == 401


def test_the_page_itself_holds_nothing(client, folder):
    (folder / "plan.toml").write_text('title = "secret title"')
    page = client.get("/", headers={"x-tightdp": ""})
    assert page.status_code == 200
    assert "secret" not in page.text
    assert "set-cookie" not in page.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8000"},
        {"origin": "null"},
        {"host": "evil.example"},
        {"host": "evil.example:8000"},
        {"host": "127.0.0.1:8001"},
        {"host": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_origins_and_names_are_refused(client, headers):
    assert status(client, **headers) in (403, 421)
    assert client.get("/", headers=headers).status_code in (403, 421)


def test_the_page_may_ask(client):
    assert status(client, origin=f"http://{HOST}", **{"sec-fetch-site": "same-origin"}) == 200


def test_no_other_site_is_given_a_permission(client):
    found = client.options(
        "/api/release",
        headers={"origin": f"http://{HOST}", "access-control-request-method": "POST"},
    )
    assert found.status_code == 405
    assert not [name for name in found.headers if name.startswith("access-control")]
    assert client.get("/api/start").status_code == 405


def test_every_answer_has_the_strict_headers(client):
    for found in (client.get("/"), client.get("/static/no"), client.post("/api/start"),
                  client.post("/api/start", headers={"x-tightdp": "no"})):  # fmt: skip
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert found.headers["cache-control"] == "no-store"
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
        assert "frame-ancestors 'none'" in policy


def test_long_bodies_are_refused(client):
    assert status(client, body=b" " * 10_000_000) == 413
    assert client.post("/api/start", content=(b" " * 1000 for _ in range(2000))).status_code == 413
    for length in ("-1", "1e9", "9" * 30, "x"):
        assert status(client, **{"content-length": length}) in (400, 413)


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b"{", b"\xff", b"[" * 50_000, b'{"a": NaN}', b'{"a": "\\ud800"}', b"null"]
)
def test_what_is_no_document_is_refused(client, body):
    for name in ("start", "check", "release"):
        assert status(client, f"/api/{name}", body=body) == 400


@pytest.mark.parametrize(
    "name",
    ["../secret.csv", "/etc/passwd", "link.csv", "sub/../../secret.csv", "\0", "a" * 5000, "~root"],
)
def test_paths_outside_of_the_folders_are_refused(ask, folder, name):
    (folder / "link.csv").symlink_to(folder.parent / "secret.csv")
    said = ask("header", 422, data={"file": name})["error"]
    assert "41" not in said
    for section, key in [("data", "file"), ("data", "database"), ("budget", "ledger")]:
        record = plan(MEAN)
        record[section][key] = name
        ask("check", 422 if name != "~root" else 200, plan=record)
    assert not (folder.parent / "secret.csv-wal").exists()
    ask("open", 422, file=name)
    ask("save", 422, plan=plan(MEAN), file=name)
    assert (folder.parent / "secret.csv").read_text() == "age\n41\n"


def test_links_in_folders_of_tables_and_to_folders_are_refused(ask, folder):
    (folder / "parts").mkdir()
    (folder / "parts" / "a.parquet").symlink_to(folder.parent / "secret.csv")
    (folder / "up").symlink_to(folder.parent)
    for data in ({"folder": "parts"}, {"folder": "up"}, {"file": "up/secret.csv"}):
        assert "outside" in ask("header", 422, data=data)["error"]
    assert not any("secret" in name for names in ask("files").values() for name in names)


def test_links_deep_in_folders_of_tables_are_refused(ask, folder):
    """All below a folder is read, and only the links at its top were looked at."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("duckdb")
    parquet.write_table(pa.table({"hidden": [41]}), folder.parent / "secret.parquet")
    (folder / "parts" / "deep").mkdir(parents=True)
    (folder / "parts" / "deep" / "a.parquet").symlink_to(folder.parent / "secret.parquet")
    (folder / "up").symlink_to(folder.parent)
    for data in ({"folder": "parts"}, {"file": "parts"}, {"folder": "parts/deep"}):
        assert "outside" in ask("header", 422, data=data)["error"]
        assert "outside" in ask("check", 422, plan=plan(MEAN) | {"data": data})["error"]
    for place in ("parts/deep/a.parquet", "up/secret.parquet", "parts/**/*.parquet"):
        sql = f"SELECT * FROM read_parquet('{folder}/{place}')"
        assert "Permission" in ask("header", 422, data={"sql": sql})["error"]


def test_a_query_sees_the_folder_and_nothing_else(ask, folder):
    pytest.importorskip("duckdb")
    for query in (
        f"SELECT * FROM read_text('{folder.parent}/secret.csv')",
        f"SELECT * FROM read_text('{folder}/../secret.csv')",
        "SELECT * FROM glob('/etc/*')",
        "COPY (SELECT 1) TO 'x.csv'",
        "SELECT 1; DROP TABLE x",
        "ATTACH 'x.db'",
    ):
        ask("header", 422, data={"sql": query})
    ask("header", 422, data={"sql": "SELECT 1 AS x", "files": "/etc"})
    assert not (folder / "x.csv").exists()


def test_only_plans_are_written_and_no_ledger_is_overwritten(ask, release, folder):
    release(plan(MEAN))
    for name in ("survey.csv", "survey.ledger", "plan.py", "survey.ledger-wal"):
        ask("save", 422, plan=plan(MEAN), file=name)
    (folder / "l.toml").write_bytes((folder / "survey.ledger").read_bytes())
    ask("save", 422, plan=plan(MEAN), file="l.toml")
    with Ledger.open(folder / "survey.ledger", read_only=True) as ledger:
        ledger.verify()


class _Tags(HTMLParser):
    found: list[str]

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.found += [f"{name}=" for name, _ in attrs if name.startswith("on")]


EVIL = '<img src=x onerror="alert(1)">'


def test_names_and_levels_with_html_are_text(ask, folder, release):
    (folder / f"{EVIL.replace('/', '')}.csv").write_text("x\n1\n")
    (folder / "evil.csv").write_text(f'x,"{EVIL.replace(chr(34), chr(34) * 2)}"\n1,2\n3,4\n')
    facts = {"rows": 2, "columns": {"x": {"low": 0, "high": 9}, EVIL: {"levels": [EVIL, "b"]}}}
    record = {
        "title": EVIL, "data": {"file": "evil.csv"}, "schema": facts,
        "budget": {"epsilon": 1, "ledger": "evil.ledger"},
        "releases": [{"name": EVIL, "kind": "count", "columns": [EVIL], "epsilon": 1}],
    }  # fmt: skip
    shown = [
        ask("picture", plan=record, name=EVIL, epsilon=1)["svg"],
        ask("compare", plan=record, name=EVIL, epsilon=1)["svg"],
        ask("preview", plan=record, name=EVIL, epsilon=1)["power"],
        ask("curator", plan=record)["html"],
    ]
    job = release(record)
    assert job["state"] == "done", job["message"]
    shown += [sheet["html"] for sheet in job["sheets"]]
    shown += [ask("download", id=job["id"], form="html")["text"]]
    shown += [ask("ledger", plan=record)["table"], ask("stored", plan=record, key=EVIL)["html"]]
    for html in shown:
        tags = _Tags()
        tags.found = []
        tags.feed(html)
        assert not {"img", "script", "onerror="} & set(tags.found)


def test_a_name_is_no_formula_of_a_spreadsheet(ask, release):
    evil = "=cmd|' /C calc'!A0"
    job = release(plan({**MEAN, "name": evil}))
    assert f'"{evil}' not in ask("download", id=job["id"], form="csv")["text"]


def test_no_private_cell_leaves(client, ask, release, folder, capfd):
    record = plan(MEAN, COUNT)
    lines = (folder / "survey.csv").read_text().splitlines()
    lines[5] = f"{CANARY},{CANARY},level-{CANARY},{CANARY}"
    (folder / "survey.csv").write_text("\n".join(lines) + "\n")
    said = [ask(act, plan=record) for act in ("check", "curator", "offer", "ledger")]
    said += [
        ask(a, plan=record, name="means", epsilon=1) for a in ("preview", "picture", "compare")
    ]
    said += [ask("start"), ask("files"), ask("header", data={"file": "survey.csv"})]
    job = release(record)
    said += [job, *(ask("download", id=job["id"], form=f) for f in ("html", "json", "csv"))]
    (folder / "survey.csv").write_bytes(b"age,pay,answer,region\n\xff\x00" + b"7319," * 9)
    said += [ask("curator", plan=record), ask("header", data={"file": "survey.csv"})]
    assert str(CANARY) not in json.dumps(said)
    assert str(CANARY) not in "".join(capfd.readouterr())


def test_a_fault_does_not_say_what_it_found(client, monkeypatch, capfd):
    def fail(*_):
        raise ValueError("cell 41 of Berlin")

    monkeypatch.setattr(app_module.shown, "checked", fail)
    found = client.post("/api/check", json={"plan": plan(MEAN), "file": "plan.toml"})
    assert found.status_code == 500
    assert "Berlin" not in found.text + "".join(capfd.readouterr())
    assert "ValueError" in found.text


def test_the_page_loads_nothing_from_elsewhere():
    for place in STATIC.rglob("*"):
        if place.is_file():
            text = place.read_text().replace("http://www.w3.org/", "")
            assert "http://" not in text, place
            assert "https://" not in text, place
            assert "innerHTML" not in text, place
            assert "eval(" not in text, place


# --- passwords -----------------------------------------------------------------------------------


def public(folder):
    keys = Keys(TOKEN, password="correct horse battery")
    app = make_app(Workspace([folder]), keys, allowed_hosts("0.0.0.0", 8000))
    return TestClient(app, base_url="http://example.org")


def test_a_public_address_asks_for_its_password(folder):
    with public(folder) as client:
        asked = client.post("/api/start")
        assert (asked.status_code, asked.json()["kind"]) == (401, "password")
        wrong = client.post("/api/login", json={"password": "correct horse"})
        assert wrong.status_code == 401
        right = client.post("/api/login", json={"password": "correct horse battery"})
        assert client.post("/api/start", headers={"x-tightdp": right.json()["token"]}).is_success
        for body in (b"[]", b"{}", b'{"password": ["a"]}', b""):
            assert client.post("/api/login", content=body).status_code == 401


def test_passwords_cannot_be_tried_for_ever(folder, monkeypatch):
    with public(folder) as client:
        for i in range(8):
            client.post("/api/login", json={"password": f"guess number {i}"})
        right = {"password": "correct horse battery"}
        assert client.post("/api/login", json=right).status_code == 401
        monkeypatch.setattr(guard, "_PAUSE", 0.0)
        assert client.post("/api/login", json=right).is_success


def test_a_local_address_has_no_password_to_guess(client):
    assert client.post("/api/start", headers={"x-tightdp": ""}).json()["kind"] == ""
    for password in ("", "None", TOKEN):
        assert client.post("/api/login", json={"password": password}).status_code == 401


def test_a_short_password_is_refused():
    with pytest.raises(ParameterError, match="12 characters"):
        Keys(password="short")


# --- slow clients --------------------------------------------------------------------------------


@pytest.fixture
def running(folder, monkeypatch):
    """A real server with little patience; its port."""
    monkeypatch.setattr(server.PatientProtocol, "patience", 0.3)
    bound = server.listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    app = make_app(Workspace([folder]), Keys(TOKEN), allowed_hosts("127.0.0.1", port))
    monkeypatch.setattr(app, "_patience", 0.3)
    made = server.make_server(app)
    thread = threading.Thread(target=made.run, kwargs={"sockets": [bound]})
    thread.start()
    while not made.started:
        time.sleep(0.01)
    yield port
    made.should_exit = True
    thread.join(10)
    bound.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /api/start HTTP/1.1\r\nHost: ",
        b"POST /api/start HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nX-Tightdp: TOKEN\r\n"
        b"Content-Length: 100\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\nGET / HTTP/1.1\r\nHos",
    ],
)
def test_slow_clients_are_not_waited_for(running, sent):
    text = sent.replace(b"PORT", str(running).encode()).replace(b"TOKEN", TOKEN.encode())
    with socket.create_connection(("127.0.0.1", running), timeout=5) as client:
        client.sendall(text)
        begun, got = time.monotonic(), b""
        while part := client.recv(4096):  # ends when the server closes
            got += part
    assert time.monotonic() - begun < 3
    if b"Content-Length" in text:
        assert b"408" in got.split(b"\r\n")[0]
