"""Rules about the state of an app, and the sessions that broke them."""

from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from ninja.params.functions import Query
from pydantic import Field

from ..access.actor import Actor
from ..checks import breaches, rules
from ..checks.breaches import Broken
from ..models import Rule as RuleRow
from .authorize import actor_of, names_of, source_of
from .bodies import answer, body_of, body_schema
from .openapi import LOCATION, needs

router = Router()

RULES: str = "/apps/{plain:app_name}/rules"
RULE: str = RULES + "/{int:number}"
MOST: int = 500  # breaches of a page


class Rule(Schema):
    """A rule, and how many sessions broke it. Its `number` is its id."""

    number: int
    title: str
    condition: str
    created: float
    created_by: str
    percent: int | None = Field(description="the progress of the check of all sessions; null if it isn't running")
    stopped: str = Field(description="why the check ended early, or empty")
    checked: float = Field(description="when all sessions were checked; 0 for not yet")
    sessions: int = Field(description="that broke it, at most 10,000")
    now: int = Field(description="those of them whose state breaks it now, at most 10,000")
    more: bool = Field(description="more than 10,000 sessions broke it")


class NewRule(Schema):
    """A rule as a program sends it."""

    title: str = Field("", description="at most 100 characters; by default, the condition")
    condition: str = Field(
        description="the condition that the state must meet, in the search language: `cart.total >= 0`"
    )


class Breach(Schema):
    """A session that broke a rule, and the first event that did."""

    source: str
    app_name: str
    user_id: str
    id: str
    event_id: str | None = Field(description="null if no event of the session did it, or none is known")
    seq: int | None
    at: float
    now: bool = Field(description="its state breaks the rule now")


class Breaches(Schema):
    """A page of breaches, the newest first."""

    items: list[Breach]
    next: str | None = Field(description="`before` of the page with older breaches")


@router.get(RULES, response=list[Rule], summary="Rules about the state of an app")
def list_rules(request: HttpRequest, app_name: str, source: str | None = None) -> HttpResponse:
    """Returns the rules that people wrote about the state of an app, the oldest first."""
    actor = actor_of(request)
    some = rules.rules(source_of(request, app_name, source), app_name, actor=actor)
    return answer([_rule(each, actor) for each in some])


@router.post(
    RULES,
    response={201: Rule},
    summary="Create a rule",
    openapi_extra=body_schema(NewRule, required=True) | needs("append") | LOCATION,
)
def create_rule(request: HttpRequest, app_name: str, source: str | None = None) -> HttpResponse:
    """Creates a rule, and starts to check all sessions of the app. Answers 400 if the condition has a mistake."""
    alias = source_of(request, app_name, source, "append")
    body, actor = body_of(request, NewRule), actor_of(request)
    number = rules.create(alias, app_name, body.title, body.condition, actor=actor)
    response = answer(_rule(rules.rule(alias, app_name, number, actor=actor), actor), 201)
    response["Location"] = f"{quote(request.path)}/{number}"
    return response


@router.get(RULE, response=Rule, summary="A rule")
def get_rule(request: HttpRequest, app_name: str, number: int, source: str | None = None) -> HttpResponse:
    """Returns a rule, with the progress of its check."""
    actor = actor_of(request)
    return answer(_rule(rules.rule(source_of(request, app_name, source), app_name, number, actor=actor), actor))


@router.put(
    RULE,
    response=Rule,
    summary="Change a rule",
    openapi_extra=body_schema(NewRule, required=True) | needs("append"),
)
def change_rule(request: HttpRequest, app_name: str, number: int, source: str | None = None) -> HttpResponse:
    """Changes a rule. If its condition changes, all sessions are checked again."""
    alias = source_of(request, app_name, source, "append")
    body, actor = body_of(request, NewRule), actor_of(request)
    rules.change(alias, app_name, number, body.title, body.condition, actor=actor)
    return answer(_rule(rules.rule(alias, app_name, number, actor=actor), actor))


@router.delete(RULE, response={204: None}, summary="Delete a rule", openapi_extra=needs("append"))
def delete_rule(request: HttpRequest, app_name: str, number: int, source: str | None = None) -> HttpResponse:
    """Deletes a rule with its results."""
    alias = source_of(request, app_name, source, "append")
    rules.delete(alias, app_name, number, actor=actor_of(request))
    return HttpResponse(status=204)


@router.get(RULE + "/breaches", response=Breaches, summary="Sessions that broke a rule")
def list_breaches(
    request: HttpRequest,
    app_name: str,
    number: int,
    before: str | None = None,
    limit: int = Query(breaches.PAGE, ge=1, le=MOST),
    source: str | None = None,
) -> HttpResponse:
    """Returns a page of the sessions that broke a rule, each with its first breach."""
    actor = actor_of(request)
    rule = rules.rule(source_of(request, app_name, source), app_name, number, actor=actor)
    page = breaches.broken(rule, before, limit, actor=actor)
    return answer({"items": [_broken(each, actor) for each in page.rows], "next": page.next})


def _rule(rule: RuleRow, actor: Actor) -> dict[str, Any]:
    names = ("title", "condition", "created", "created_by", "percent", "stopped", "checked")
    fields = {"number": rule.pk} | {name: getattr(rule, name) for name in names}
    return fields | asdict(breaches.counts(rule, actor=actor))


def _broken(each: Broken, actor: Actor) -> dict[str, Any]:
    return names_of(each.ref, actor, "id") | {
        "event_id": each.event_id or None,
        "seq": each.seq,
        "at": each.at,
        "now": each.now,
    }
