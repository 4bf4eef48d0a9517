"""Makes large sessions in a second, in the database itself."""

from __future__ import annotations

from django.db import connections

from sessions_app.domain.session_ref import SessionRef

_FILL = {
    "postgresql": """INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
        SELECT 'e' || n, %(app)s, %(user)s, %(session)s, 'i' || (n / 10), TIMESTAMP '2026-01-01' + n * interval '1 second',
        jsonb_build_object('id', 'e' || n, 'author', 'agent', 'content', '{"parts": [{"text": "hello"}]}'::jsonb,
        'actions', jsonb_build_object('state_delta', jsonb_build_object('n', n)))
        FROM generate_series(1, %(count)s::int) AS n""",
    "sqlite": """WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %(count)s)
        INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)
        SELECT 'e' || n, %(app)s, %(user)s, %(session)s, 'i' || (n / 10), %(time)s,
        json_object('id', 'e' || n, 'author', 'agent', 'content', json('{"parts": [{"text": "hello"}]}'),
        'actions', json_object('state_delta', json_object('n', n))) FROM numbers""",
}


_STATE = {
    "postgresql": "state || jsonb_build_object('n', %(count)s::int)",
    "sqlite": "json_set(state, '$.n', %(count)s)",
}


def fill(ref: SessionRef, count: int) -> None:
    """Appends events e1, e2, … that set the key `n`, bypassing adkweb's write path."""
    with connections[ref.source].cursor() as cursor:
        names = dict(zip(("app", "user", "session"), ref[1:], strict=True))
        real = "1767225600.0 + n"
        text = "strftime('%%Y-%%m-%%d %%H:%%M:%%S.000000', 1767225600 + n, 'unixepoch')"
        time = real if cursor.db.settings_dict["ADKWEB"]["real_times"] else text
        cursor.execute(_FILL[cursor.db.vendor].replace("%(time)s", time), {**names, "count": count})
        cursor.execute(
            f"""UPDATE sessions SET state = {_STATE[cursor.db.vendor]}
            WHERE app_name = %(app)s AND user_id = %(user)s AND id = %(session)s""",
            {**names, "count": count},
        )
        cursor.execute("ANALYZE")
