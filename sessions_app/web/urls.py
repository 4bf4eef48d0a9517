"""Every page and action. `/apps`, `/list-apps`, `/health`, `/version` and `/api` belong to programs: keep them free."""

from django.contrib.auth.decorators import login_not_required
from django.urls import path, register_converter
from django.views.i18n import set_language

from ..http.paths import Segment
from . import adoption, batches, demo, transfer
from .account import signin, tokens
from .checks import rule, state_health
from .editing import drift, edit, fork, habits, queued, rewind, undo, values
from .lists import app, edits, feed, home, schema, sessions, user
from .search import bar, chosen, histogram, preview, results, views, webhook
from .session import (
    agent_view,
    artifacts,
    chosen_range,
    compare,
    compare_state,
    delivery,
    densities,
    event,
    going,
    history,
    labels,
    moment,
    news,
    overview,
    page,
    stretch,
    trace,
)

register_converter(Segment, "name")

APP = "a/<name:source>/<name:app_name>/"
USER = "u/<name:source>/<name:app_name>/<name:user_id>/"
SESSION = "s/<name:source>/<name:app_name>/<name:user_id>/<name:session_id>/"
LIVE_SESSION = "live/session/" + SESSION.partition("/")[2]

urlpatterns = [
    path("", home.home, name="home"),
    path("demo/", demo.best, name="demo"),
    path("feed/", feed.feed, name="feed"),
    path("edits/", edits.edits, name="edits"),
    path("sessions/", results.results, name="search"),
    path("sessions/histogram/", histogram.over_time, name="histogram"),
    path("sessions/complete/", bar.complete, name="complete"),
    path("sessions/views/", views.save, name="save-view"),
    path("sessions/views/<uuid:view_id>/", views.change, name="change-view"),
    path("sessions/views/<uuid:view_id>/watch/", views.watch, name="watch-view"),
    path("sessions/views/<uuid:view_id>/webhook/", webhook.webhook, name="webhook"),
    path("sessions/views/<uuid:view_id>/webhook/deliveries/", webhook.deliveries, name="deliveries"),
    path("sessions/views/<uuid:view_id>/delete/", views.delete, name="delete-view"),
    path("sessions/chosen/", chosen.chosen, name="chosen"),
    path("batches/", batches.batches, name="batches"),
    path("batches/<uuid:batch_id>/", batches.batch, name="batch"),
    path("sessions/new/", sessions.new, name="new-session"),
    path("import/", transfer.imports, name="imports"),
    path("import/<uuid:import_id>/", transfer.import_, name="import"),
    path("adopt/<name:source>/", adoption.adoption, name="adoption"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<name:name>/revoke/", tokens.revoke, name="revoke-token"),
    path("sign-in/", signin.sign_in, name="sign-in"),
    path("sign-out/", signin.sign_out, name="sign-out"),
    path("language/", login_not_required(set_language), name="set_language"),
    path("queued/outcomes/", queued.outcomes, name="queued-outcomes"),
    path("queued/<uuid:queued_id>/", queued.raw, name="queued-json"),
    path("queued/<uuid:queued_id>/withdraw/", queued.withdraw, name="queued-withdraw"),
    path("queued/<uuid:queued_id>/dismiss/", queued.dismiss, name="queued-dismiss"),
    path(APP, app.app, name="app"),
    path(APP + "users/", app.users, name="users"),
    path(APP + "sessions/", sessions.sessions, name="sessions"),
    path(APP + "checks/", state_health.state_health, name="state-health"),
    path(APP + "checks/<int:number>/", rule.rule, name="rule"),
    path(APP + "schema/", schema.schema, name="schema"),
    path(APP + "schema/state.py", schema.model, name="schema-model"),
    path(APP + "schema/key/", schema.card, name="schema-key"),
    path(APP + "schema/check/", habits.check, name="schema-check"),
    path(APP + "edit/", edit.app, name="app-edit"),
    path(APP + "value/", values.app, name="app-value"),
    path(APP + "history/", history.app, name="app-history"),
    path(APP + "export/", transfer.export_app, name="app-export"),
    path(USER, user.user, name="user"),
    path(USER + "sessions/", sessions.sessions, name="user-sessions"),
    path(USER + "edit/", edit.user, name="user-edit"),
    path(USER + "value/", values.user, name="user-value"),
    path(USER + "history/", history.user, name="user-history"),
    path(USER + "export/", transfer.export_user, name="user-export"),
    path(SESSION, page.session, name="session"),
    path(SESSION + "go/", going.go, name="go"),
    path(SESSION + "title/", labels.title, name="session-title"),
    path(SESSION + "tags/", labels.tags, name="session-tags"),
    path(SESSION + "events/", page.events, name="events"),
    path(SESSION + "chat/", densities.chat, name="chat"),
    path(SESSION + "preview/", preview.preview, name="preview"),
    path(SESSION + "news/", news.news, name="news"),
    path(SESSION + "stats/", page.stats, name="stats"),
    path(SESSION + "strip/", overview.strip, name="strip"),
    path(SESSION + "range/", chosen_range.numbers, name="range"),
    path(SESSION + "trace/", trace.trace, name="trace"),
    path(SESSION + "state/", moment.state_at, name="state-at"),
    path(SESSION + "state/stretch/", stretch.stretch, name="stretch"),
    path(SESSION + "edit/", edit.session, name="session-edit"),
    path(SESSION + "queued/", queued.of_session, name="queued"),
    path(SESSION + "value/", values.session, name="session-value"),
    path(SESSION + "history/", history.session, name="session-history"),
    path(SESSION + "compare/", compare.compare, name="compare"),
    path(SESSION + "compare/delta/", compare_state.delta, name="compare-delta"),
    path(SESSION + "artifacts/", artifacts.artifacts, name="artifacts"),
    path(SESSION + "artifacts/compare/", artifacts.compare, name="artifact-versions"),
    path(SESSION + "artifacts/<name:artifact>/<int:version>/", artifacts.download, name="artifact-file"),
    path(SESSION + "artifacts/<name:artifact>/<int:version>/image/", artifacts.image, name="artifact-image"),
    path(SESSION + "context/", agent_view.context, name="context"),
    path(SESSION + "export/", transfer.export_session, name="session-export"),
    path(SESSION + "delete/", sessions.delete, name="delete-session"),
    path(SESSION + "drift/", drift.session, name="drift"),
    path(SESSION + "add/", event.add, name="add-event"),
    path(SESSION + "e/<name:event_id>/", event.event, name="event"),
    path(SESSION + "e/<name:event_id>/undo/", undo.undo, name="undo"),
    path(SESSION + "e/<name:event_id>/fork/", fork.fork, name="fork"),
    path(SESSION + "restore/", undo.restore, name="restore"),
    path(SESSION + "rewind/", rewind.rewind, name="rewind"),
    path(SESSION + "forks/", fork.tree, name="forks"),
    path(SESSION + "e/<name:event_id>/delivery/", delivery.delivery, name="delivery"),
    path(SESSION + "e/<name:event_id>/json/", event.raw, name="event-json"),
    path(SESSION + "e/<name:event_id>/data/<int:number>/", event.media, name="event-data"),
]
