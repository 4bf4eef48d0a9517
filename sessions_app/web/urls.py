"""Every page and action. `/api`, `/apps`, `/list-apps`, `/health`, `/ready`, `/metrics`, `/version` belong to programs."""

from django.contrib.auth.decorators import login_not_required
from django.urls import path, register_converter
from django.views.i18n import set_language

from ..http.paths import Segment
from . import agent_view, agents, answers, artifacts, audit, batches, breakpoints, drift, inbox, masking, settings


from . import agent_view, agents, answers, artifacts, audit, batches, drift, inbox, masking, replays, settings
from . import sources as demo
from .access import join, passkeys, people, provider, roles, second_factor, second_step, sign_ins, signin, tokens
from .approval import proposals
from .approval import rules as approval_rules
from .checks import rule, schema, state_health
from .compare import compare
from .compare import state as compare_state
from .edits import edit, fork, log, queued, rewind, undo
from .history import history, moment, stretch, strip
from .home import home, sessions
from .naming import UserSegment
from .privacy import erase, export, retention
from .search import bulk_actions, histogram, palette, params, results, views
from .session import chosen_range, event, labels, modes, page, reveal, trace, updates
from .transfer import imports, make_test

register_converter(Segment, "name")
register_converter(UserSegment, "user")

APP = "a/<name:source>/<name:app_name>/"
USER = "u/<name:source>/<name:app_name>/<user:user_id>/"
SESSION = "s/<name:source>/<name:app_name>/<user:user_id>/<name:session_id>/"
AGENT = "agents/<name:source>/<name:app_name>/"
LIVE_SESSION = "live/session/" + SESSION.partition("/")[2]

urlpatterns = [
    path("", home.home, name="home"),
    path("demo/", demo.best, name="demo"),
    path("feed/", home.feed, name="feed"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("inbox/decide/", inbox.decide, name="decide"),
    path("agents/", agents.agents, name="agents"),
    path("agents/sessions/", agents.start_sessions, name="start-sessions"),
    path(AGENT, agents.agent, name="agent"),
    path(AGENT + "test/", agents.test, name="test-agent"),
    path(AGENT + "stop/", agents.stop, name="stop-agent"),
    path(AGENT + "output/", agents.output, name="agent-output"),
    path(AGENT + "address/remove/", agents.remove_address, name="remove-agent-address"),
    path("edits/", log.edits, name="edits"),
    path("audit/", audit.audit, name="audit"),
    path("audit/export/", audit.export, name="audit-export"),
    path("sessions/", results.results, name="search"),
    path("sessions/histogram/", histogram.over_time, name="histogram"),
    path("sessions/complete/", params.complete, name="complete"),
    path("palette/", palette.palette, name="palette"),
    path("sessions/views/", views.save, name="save-view"),
    path("sessions/views/<uuid:view_id>/", views.change, name="change-view"),
    path("sessions/views/<uuid:view_id>/watch/", views.watch, name="watch-view"),
    path("sessions/views/<uuid:view_id>/webhook/", views.webhook, name="webhook"),
    path("sessions/views/<uuid:view_id>/webhook/deliveries/", views.deliveries, name="deliveries"),
    path("sessions/views/<uuid:view_id>/delete/", views.delete, name="delete-view"),
    path("sessions/chosen/", bulk_actions.chosen, name="chosen"),
    path("batches/", batches.batches, name="batches"),
    path("batches/<uuid:batch_id>/", batches.batch, name="batch"),
    path("replays/", replays.replays, name="replays"),
    path("replays/<uuid:replay_id>/", replays.replay, name="replay"),
    path("sessions/new/", sessions.new, name="new-session"),
    path("settings/", settings.first, name="settings"),
    path("retention/", retention.retention, name="retention"),
    path("retention/<int:number>/remove/", retention.remove, name="remove-retention"),
    path("import/", imports.imports, name="imports"),
    path("import/<uuid:import_id>/", imports.import_, name="import"),
    path("adopt/<name:source>/", demo.adoption, name="adoption"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<name:name>/renew/", tokens.renew, name="renew-token"),
    path("tokens/<name:name>/revoke/", tokens.revoke, name="revoke-token"),
    path("people/", people.people, name="people"),
    path("people/<name:name>/", people.person, name="person"),
    path("people/<name:name>/sign-out/", people.sign_somebody_out, name="sign-somebody-out"),
    path("people/<name:name>/reset-second-factor/", people.reset_second_factor, name="reset-second-factor"),
    path("invitations/", people.invite, name="invite"),
    path("invitations/<int:invitation_id>/cancel/", people.cancel, name="cancel-invitation"),
    path("groups/", people.new_group, name="new-group"),
    path("groups/<name:name>/", people.group, name="group"),
    path("groups/<name:name>/delete/", people.delete_group, name="delete-group"),
    path("join/", join.join, name="join"),
    path("password/", join.new_password, name="new-password"),
    path("roles/", roles.roles, name="roles"),
    path("roles/<int:number>/remove/", roles.remove, name="remove-role"),
    path("sign-ins/", sign_ins.sign_ins, name="sign-ins"),
    path("masking/", masking.masking, name="masking"),
    path("masking/<int:number>/remove/", masking.remove, name="remove-mask"),
    path("second-factor/", second_factor.second_factor, name="second-factor"),
    path("second-factor/codes/", second_factor.new_codes, name="new-codes"),
    path("second-factor/remove/", second_factor.remove, name="remove-second-factor"),
    path("second-factor/passkeys/add/", passkeys.add_passkey, name="add-passkey"),
    path("second-factor/passkeys/<int:number>/remove/", passkeys.remove_passkey, name="remove-passkey"),
    path("sign-in/code/", second_step.second_step, name="second-step"),
    path("sign-in/", signin.sign_in, name="sign-in"),
    path("sign-in/provider/", provider.begin, name="provider-sign-in"),
    path("sign-in/provider/callback/", provider.callback, name="provider-callback"),
    path("sign-in/provider/connect/", provider.connect, name="connect-provider"),
    path("sign-out/", signin.sign_out, name="sign-out"),
    path("language/", login_not_required(set_language), name="set_language"),
    path("proposals/", proposals.proposals, name="proposals"),
    path("proposals/<uuid:proposal_id>/", proposals.decide, name="proposal"),
    path("approval/", approval_rules.rules, name="approval"),
    path("approval/<int:number>/delete/", approval_rules.delete, name="delete-approval"),
    path("temporary-edits/", queued.temporary_edits, name="temporary-edits"),
    path("expiring/", queued.expiring, name="expiring"),
    path("temporary-edits/<uuid:expiry_id>/extend/", queued.extend, name="extend-edit"),
    path("temporary-edits/<uuid:expiry_id>/keep/", queued.keep, name="keep-edit"),
    path("queued/outcomes/", queued.outcomes, name="queued-outcomes"),
    path("queued/<uuid:queued_id>/", queued.raw, name="queued-json"),
    path("queued/<uuid:queued_id>/cancel/", queued.cancel_queued, name="cancel-queued"),
    path("queued/<uuid:queued_id>/dismiss/", queued.dismiss, name="queued-dismiss"),
    path("a/<name:source>/", sessions.apps, name="apps"),
    path(APP, sessions.app, name="app"),
    path(APP + "users/", sessions.users, name="users"),
    path(APP + "sessions/", sessions.sessions, name="sessions"),
    path(APP + "checks/", state_health.state_health, name="state-health"),
    path(APP + "checks/trial/", rule.trial, name="rule-trial"),
    path(APP + "checks/<int:number>/", rule.rule, name="rule"),
    path(APP + "schema/", schema.schema, name="schema"),
    path(APP + "schema/state.py", schema.model, name="schema-model"),
    path(APP + "schema/key/", schema.card, name="schema-key"),
    path(APP + "schema/check/", edit.check, name="schema-check"),
    path(APP + "edit/", edit.app, name="app-edit"),
    path(APP + "value/", event.app, name="app-value"),
    path(APP + "reveal/", reveal.app, name="app-reveal"),
    path(APP + "history/", history.app, name="app-history"),
    path(APP + "export/", imports.export_app, name="app-export"),
    path(USER, sessions.user, name="user"),
    path(USER + "sessions/", sessions.sessions, name="user-sessions"),
    path(USER + "edit/", edit.user, name="user-edit"),
    path(USER + "value/", event.user, name="user-value"),
    path(USER + "reveal/", reveal.user, name="user-reveal"),
    path(USER + "history/", history.user, name="user-history"),
    path(USER + "export/", imports.export_user, name="user-export"),
    path(USER + "everything/", export.export, name="export-everything"),
    path(USER + "everything/<uuid:export_id>/", export.file, name="everything-file"),
    path(USER + "erase/", erase.erase, name="erase-user"),
    path(SESSION, page.session, name="session"),
    path(SESSION + "go/", page.go, name="go"),
    path(SESSION + "title/", labels.title, name="session-title"),
    path(SESSION + "tags/", labels.tags, name="session-tags"),
    path(SESSION + "events/", page.events, name="events"),
    path(SESSION + "chat/", modes.chat, name="chat"),
    path(SESSION + "preview/", results.preview, name="preview"),
    path(SESSION + "news/", updates.news, name="news"),
    path(SESSION + "stats/", page.stats, name="stats"),
    path(SESSION + "strip/", strip.strip, name="strip"),
    path(SESSION + "range/", chosen_range.numbers, name="range"),
    path(SESSION + "trace/", trace.trace, name="trace"),
    path(SESSION + "state/", moment.state_at, name="state-at"),
    path(SESSION + "state/stretch/", stretch.stretch, name="stretch"),
    path(SESSION + "edit/", edit.session, name="session-edit"),
    path(SESSION + "queued/", queued.of_session, name="queued"),
    path(SESSION + "value/", event.session, name="session-value"),
    path(SESSION + "reveal/", reveal.session, name="session-reveal"),
    path(SESSION + "history/", history.session, name="session-history"),
    path(SESSION + "compare/", compare.compare, name="compare"),
    path(SESSION + "compare/delta/", compare_state.delta, name="compare-delta"),
    path(SESSION + "artifacts/", artifacts.artifacts, name="artifacts"),
    path(SESSION + "artifacts/compare/", artifacts.compare, name="artifact-versions"),
    path(SESSION + "artifacts/<name:artifact>/<int:version>/", artifacts.download, name="artifact-file"),
    path(SESSION + "artifacts/<name:artifact>/<int:version>/image/", artifacts.image, name="artifact-image"),
    path(SESSION + "context/", agent_view.context, name="context"),
    path(SESSION + "export/", imports.export_session, name="session-export"),
    path(SESSION + "test/", make_test.make_test, name="make-test"),
    path(SESSION + "delete/", sessions.delete, name="delete-session"),
    path(SESSION + "waits/", answers.of_session, name="waits"),
    path(SESSION + "answer/", answers.answer, name="answer"),
    path(SESSION + "say/", answers.say, name="say"),
    path(SESSION + "continue/", answers.go_on, name="continue"),
    path(SESSION + "stop/", answers.stop, name="stop"),
    path(SESSION + "resume/", breakpoints.resume, name="resume"),
    path(SESSION + "breakpoints/", breakpoints.change, name="breakpoints"),
    path(SESSION + "dismiss/", inbox.dismiss, name="dismiss"),
    path(SESSION + "hold/", retention.hold, name="hold-session"),
    path(SESSION + "drift/", drift.session, name="drift"),
    path(SESSION + "add/", event.add, name="add-event"),
    path(SESSION + "e/<name:event_id>/", event.event, name="event"),
    path(SESSION + "e/<name:event_id>/undo/", undo.undo, name="undo"),
    path(SESSION + "e/<name:event_id>/fork/", fork.fork, name="fork"),
    path(SESSION + "restore/", undo.restore, name="restore"),
    path(SESSION + "rewind/", rewind.rewind, name="rewind"),
    path(SESSION + "forks/", fork.tree, name="forks"),
    path(SESSION + "e/<name:event_id>/delivery/", event.delivery, name="delivery"),
    path(SESSION + "e/<name:event_id>/reveal/", reveal.event, name="event-reveal"),
    path(SESSION + "e/<name:event_id>/json/", event.raw, name="event-json"),
    path(SESSION + "e/<name:event_id>/data/<int:number>/", event.media, name="event-data"),
]
