"""A small application behind the guard, for the tests of access: a token of each role, a clock that stands."""

import asyncio
from functools import partial

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, StreamingResponse

from equipoise.errors import InputError
from equipoise.serve.access import Access, Limits, Sessions, Tokens, digest, new_token
from equipoise.serve.api.accounts import routes_access
from equipoise.serve.api.guard import Admin, Guard, Reader, Submitter
from equipoise.serve.api.refusals import speak_plainly
from equipoise.serve.store.rows import TenantRow, TokenRow

LIMIT = 1000  # bytes of a body
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Memory:
    """The store's access methods on two dictionaries."""

    def __init__(self):
        self.by_name, self.quotas, self.broken = {}, {}, False

    def tokens(self):
        if self.broken:
            raise OSError("the database is gone")
        return list(self.by_name.values())

    def add_token(self, row):
        if row.name in self.by_name:
            raise InputError(f"there is a token {row.name!r} already")
        self.by_name[row.name] = row

    def remove_token(self, name):
        return self.by_name.pop(name, None) is not None

    def tenants(self):
        return [TenantRow(name, quota) for name, quota in self.quotas.items()]

    def put_tenant(self, row):
        self.quotas[row.name] = row.quota

    def remove_tenant(self, name):
        return self.quotas.pop(name, None) is not None


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def application(access, store):
    """Routes of every kind: one a role and method, a stream, a mistake, a body, and those of access."""
    app = FastAPI()
    speak_plainly(app)
    app.include_router(routes_access(access, store))

    def one(path, who):
        async def route(caller: who) -> dict[str, str]:
            return {"caller": caller.name}

        app.add_api_route(f"/v1/{path}", route, methods=list(METHODS), include_in_schema=False, response_model=None)

    one("read", Reader)
    one("submit", Submitter)
    one("admin", Admin)

    @app.post("/v1/body")
    async def body(request: Request, caller: Reader) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @app.post("/v1/parsed")
    async def parsed(given: dict[str, str], caller: Reader) -> dict[str, int]:
        return {"fields": len(given)}

    @app.get("/v1/mistake")
    async def mistake(caller: Reader) -> None:
        raise RuntimeError("this went wrong with " + SECRET)

    @app.get("/v1/bad")
    async def bad(caller: Reader) -> None:
        raise InputError("workers is -1;\n expected 1 or more")

    @app.get("/v1/stream")
    async def stream(caller: Reader) -> StreamingResponse:
        async def parts():
            for k in range(3):
                yield f"data: {k}\n\n"
                await asyncio.sleep(0)

        return StreamingResponse(parts(), media_type="text/event-stream", headers={"Cache-Control": "max-age=9"})

    @app.get("/v1/broken-stream")
    async def broken_stream(caller: Reader) -> StreamingResponse:
        async def parts():
            yield "data: 0\n\n"
            raise RuntimeError("half way")

        return StreamingResponse(parts())

    for path in ("/", "/health", "/static/{name}", "/metrics", "/v1x", "/staticx"):
        app.add_api_route(
            path, lambda: PlainTextResponse("fine", headers={"Cache-Control": "max-age=9"}), methods=["GET"]
        )
    return app


SECRET = new_token()


class Browser:
    """A client that keeps cookies, on the application itself."""

    def __init__(self, app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.cookies = self._client.cookies
        self.get, self.post, self.options = (partial(self.request, method) for method in ("GET", "POST", "OPTIONS"))

    def request(self, method, path, **rest):
        return asyncio.run(self._client.request(method, path, **rest))


class Scene:
    """A guarded application with a token of each role, a clock that stands and a log that can be read."""

    def __init__(self, *, tokens=True, store=None, **settings):
        self.clock, self.store, self.token = Clock(), store or Memory(), {}
        for role in ("read", "submit", "admin") if tokens else ():
            self.token[role] = new_token()
            self.store.add_token(TokenRow(f"my-{role}", digest(self.token[role]), role, "", 0.0))
        settings = {"limits": Limits(body=LIMIT), **settings}
        known = Tokens(self.store.tokens, clock=self.clock)
        self.access = Access(known, Sessions(clock=self.clock), clock=self.clock, **settings)
        self.app = Guard(application(self.access, self.store), self.access)
        self.client = Browser(self.app)

    def bearer(self, role):
        return {"Authorization": f"Bearer {self.token[role]}"}

    def ask(self, method, path, role=None, **rest):
        headers = {**(self.bearer(role) if role else {}), **rest.pop("headers", {})}
        return self.client.request(method, path, headers=headers, **rest)

    def login(self, role="submit"):
        answer = self.client.post("/v1/login", json={"token": self.token[role]})
        assert answer.status_code == 200
        return answer


def raw(app, method="GET", path="/v1/read", headers=(), chunks=(b"",), scope=None):
    """One request by ASGI itself, with exactly these headers. Returns status, headers, body and the chunks read."""
    waiting, sent = list(chunks), []

    async def receive():
        if not waiting:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    asked = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "client": ("10.0.0.9", 5),
        "server": ("localhost", 80),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }
    asyncio.run(app({**asked, **(scope or {})}, receive, send))
    starts = [message for message in sent if message["type"] == "http.response.start"]
    assert len(starts) == 1
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return starts[0]["status"], dict(starts[0]["headers"]), body, len(chunks) - len(waiting)
