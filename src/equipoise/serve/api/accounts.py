"""Login, tokens and tenants over REST."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema
from starlette.exceptions import HTTPException

from equipoise.errors import InputError
from equipoise.serve.access import (
    COOKIE,
    JOBS,
    NAME,
    TOKEN,
    Access,
    Caller,
    check_name,
    check_resources,
    digest,
    in_units,
    new_token,
    read_quota,
)
from equipoise.serve.api.guard import Admin, Asked, Reader
from equipoise.serve.api.refusals import GUARDED, answers
from equipoise.serve.models import RequestBody
from equipoise.serve.plan.events import Body
from equipoise.serve.store import Store, TenantRow, TokenRow

MOST_RESOURCES = 64  # of a quota
LEAST, MOST = 0.001, 10**15  # units: what milli-units count exactly
AMOUNT = (  # a quantity as text, within what is counted
    r"^([0-9]{1,15}m|([0-9]{1,15}(\.[0-9]{1,3})?|[0-9]{1,11}(\.[0-9]{1,3})?(k|K|Ki)|[0-9]{1,8}(\.[0-9]{1,3})?(M|Mi)"
    r"|[0-9]{1,5}(\.[0-9]{1,3})?(G|Gi)|[0-9]{1,3}(\.[0-9]{1,3})?(T|Ti)|1(P|Pi))B?)$"
)
Name = Annotated[str, Path(pattern=NAME, description="1 to 64 of A-Z a-z 0-9 _ . -")]
Role = Literal["read", "submit", "admin"]


class LoginIn(RequestBody):
    token: str = Field(max_length=200)


class Me(BaseModel):
    """Who asks: `open` is true while the service has no tokens and everyone on this machine is admin."""

    name: str
    role: str
    tenant: str
    open: bool


class Done(BaseModel):
    """What was removed or ended."""

    removed: str


class TokenIn(RequestBody):
    name: str = Field(pattern=NAME)
    role: Role = "submit"
    tenant: str = Field("", pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$", description="empty: sees all tenants")


class TokenOut(BaseModel):
    name: str
    role: str
    tenant: str
    created: str = Field(description="ISO time, UTC")


class NewToken(TokenOut):
    token: str = Field(description="shown this once; only its digest is kept")


class TokensOut(BaseModel):
    tokens: list[TokenOut]


def check_quota(given: Body) -> Body:
    """Exactly what the schema says, so that a client can check before it asks."""
    for name, value in given.items():
        check_name("resource", name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        whole = number and value == int(value) if number and math.isfinite(value) else False
        fits = number and (value == 0 or LEAST <= value <= MOST)
        if name == JOBS and not (fits and whole):
            raise InputError(f"{JOBS} is {str(value)[:80]!r}; expected a whole number of unfinished jobs")
        if not fits and not (isinstance(value, str) and re.fullmatch(AMOUNT[1:-1], value, re.ASCII)):
            raise InputError(f'{name} is {str(value)[:80]!r}; expected an amount such as 16, 0.5, "500m" or "1Ti"')
    return given


QUOTA = {
    "type": "object",
    "maxProperties": MOST_RESOURCES,
    "propertyNames": {"pattern": NAME},
    "properties": {JOBS: {"type": "integer", "minimum": 0, "maximum": MOST}},
    "additionalProperties": {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": MOST},
            {"type": "number", "minimum": LEAST, "maximum": MOST},
            {"type": "string", "pattern": AMOUNT},
        ]
    },
    "description": 'units by resource ("gpu": 16, "memory": "1Ti"); "jobs": a count of unfinished jobs; {}: no limit',
}


class TenantIn(RequestBody):
    quota: Annotated[Body, Field(max_length=MOST_RESOURCES), AfterValidator(check_quota), WithJsonSchema(QUOTA)] = (
        Field(default_factory=dict)
    )


class TenantOut(BaseModel):
    name: str
    quota: dict[str, int | float] = Field(description="units by resource; jobs: a count of unfinished jobs")


class TenantsOut(BaseModel):
    tenants: list[TenantOut]


def me(caller: Caller) -> Me:
    return Me(name=caller.name, role=caller.role, tenant=caller.tenant, open=caller.open)


def taken(name: str) -> str:
    return f"there is a token {name!r} already; revoke it first, or take another name"


def tenant_out(row: TenantRow) -> TenantOut:
    return TenantOut(name=row.name, quota=in_units(row.quota))


class AccountRoutes:
    """The routes about login, tokens and tenants. Plain functions: they run off the event loop."""

    def __init__(
        self, access: Access, store: Store, on_tenants: Callable[[], None], resources: Callable[[], Iterable[str]]
    ) -> None:
        self.access, self.store, self.on_tenants, self.resources = access, store, on_tenants, resources

    def login(self, body: LoginIn, request: Request, response: Response) -> Me:
        """Start a browser's session: the cookie it sets stands for the token, for 12 hours or until it is revoked."""
        access = self.access
        access.tokens.reload(now=True)
        caller = access.tokens.find(body.token) if TOKEN.fullmatch(body.token) else None
        if caller is None:
            hint = "; the service has no tokens and needs no login" if access.is_open() else ""
            raise HTTPException(401, "this token is wrong or revoked" + hint, {"WWW-Authenticate": "Bearer"})
        response.set_cookie(
            COOKIE,
            access.sessions.start(digest(body.token)),
            max_age=int(access.sessions.seconds),
            httponly=True,
            samesite="strict",
            secure=access.tls or request.url.scheme == "https",
            path="/",
        )
        return me(caller)

    def logout(self, caller: Reader, request: Request, response: Response) -> Done:
        """End this browser's session. With a token instead of a session there is nothing to end."""
        self.access.sessions.end(Asked(request.scope).session() or "")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return Done(removed=caller.name)

    def who(self, caller: Reader) -> Me:
        """Who the token says you are."""
        return me(caller)

    def list_tokens(self, caller: Admin) -> TokensOut:
        """All tokens by name; the tokens themselves are not kept."""
        return TokensOut(tokens=[TokenOut(**row.as_dict()) for row in self.store.tokens()])

    def add_token(self, body: TokenIn, caller: Admin) -> NewToken:
        """Create a token. It is in this answer and nowhere else."""
        rows = self.store.tokens()
        if any(row.name == body.name for row in rows):
            raise HTTPException(409, taken(body.name))
        if body.role != "admin" and not any(row.role == "admin" for row in rows):
            first = f"the first token is {body.role!r}: it must be admin, or nobody could add the next"
            raise HTTPException(409, first)
        token = new_token()
        row = TokenRow(body.name, digest(token), body.role, body.tenant, time.time())
        try:
            self.store.add_token(row)
        except Exception as error:
            if any(other.name == body.name for other in self.store.tokens()):  # another server was faster
                raise HTTPException(409, taken(body.name)) from error
            raise
        self.access.tokens.reload(now=True)
        return NewToken(**row.as_dict(), token=token)

    def revoke_token(self, name: Name, caller: Admin) -> Done:
        """Revoke a token, and every session that logged in with it."""
        rows = {row.name: row for row in self.store.tokens()}
        if name not in rows:
            raise HTTPException(404, f"no token {name!r}")
        if [row.name for row in rows.values() if row.role == "admin"] == [name]:
            last = f"{name!r} is the last admin token; add another first, or use: equipoise admin token revoke"
            raise HTTPException(409, last)
        self.store.remove_token(name)
        self.access.tokens.reload(now=True)
        return Done(removed=name)

    def list_tenants(self, caller: Admin) -> TenantsOut:
        """All tenants that have a quota."""
        return TenantsOut(tenants=[tenant_out(row) for row in self.store.tenants()])

    def put_tenant(self, name: Name, body: TenantIn, caller: Admin) -> TenantOut:
        """Set what a tenant may use at once; jobs over it are refused, running ones stay."""
        row = TenantRow(name, read_quota(dict(body.quota)))
        check_resources(row.quota, self.resources())
        self.store.put_tenant(row)
        self.on_tenants()
        return tenant_out(row)

    def remove_tenant(self, name: Name, caller: Admin) -> Done:
        """Remove a tenant's quota: it has no limit from then on."""
        if not self.store.remove_tenant(name):
            raise HTTPException(404, f"no tenant {name!r}")
        self.on_tenants()
        return Done(removed=name)


def routes_access(
    access: Access,
    store: Store,
    on_tenants: Callable[[], None] = lambda: None,
    resources: Callable[[], Iterable[str]] = tuple,
) -> APIRouter:
    """The routes, documented.

    Parameters
    ----------
    access
        Tokens, sessions and limits of the service.
    store
        Where tokens and tenants are kept.
    on_tenants
        Called after a quota changed.
    resources
        Gives the names of the resources that machines have.
    """
    router = APIRouter(prefix="/v1", responses=GUARDED, tags=["access"])
    to = AccountRoutes(access, store, on_tenants, resources)
    router.post("/login")(to.login)
    router.post("/logout")(to.logout)
    router.get("/me")(to.who)
    router.get("/tokens")(to.list_tokens)
    router.post("/tokens", status_code=201, responses=answers(409))(to.add_token)
    router.delete("/tokens/{name}", responses=answers(404, 409))(to.revoke_token)
    router.get("/tenants")(to.list_tenants)
    router.put("/tenants/{name}")(to.put_tenant)
    router.delete("/tenants/{name}", responses=answers(404))(to.remove_tenant)
    return router
