"""The SQL of ADK's tables, and of everything that adopting adds to them."""

from typing import Final

from ..domain.positions import BETWEEN
from .dialect import POSTGRESQL, Either, if_json

WANTED: Final = {
    "sessions": {"app_name", "user_id", "id", "state", "create_time", "update_time"},
    "events": {"id", "app_name", "user_id", "session_id", "invocation_id", "timestamp", "event_data"},
    "app_states": {"app_name", "state", "update_time"},
    "user_states": {"app_name", "user_id", "state", "update_time"},
}
COLUMNS: Final = Either(  # every table's columns and their types
    sqlite="""SELECT tables.name, columns.name, columns.type
        FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
        WHERE tables.type = 'table' AND tables.name NOT GLOB 'sqlite_*'""",
    postgresql="""SELECT relname, attname, format_type(atttypid, NULL) FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid WHERE relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
        AND relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname = ANY (current_schemas(false)))
        AND pg_table_is_visible(attrelid)""",
)
# The schemas with ADK's tables, in or out of sight, and whether this user may look into each.
HIDDEN: Final = """SELECT quote_ident(nspname), has_schema_privilege(pg_namespace.oid, 'USAGE') FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE relkind IN ('r', 'p') AND relname IN (%s, %s, %s, %s)
        AND nspname <> ALL (current_schemas(false))
    GROUP BY pg_namespace.oid, nspname HAVING count(*) = 4 ORDER BY 1"""
AGREED: Final = "adkweb_agreed"  # the versions of ADK's schema that someone let adkweb write to without knowing them
FEW: Final = 32 * 2**20  # bytes of events that may be read as a whole
# Whether events can be read in order. google-adk makes such an index; where it is missing, google-adk itself reads all
# events whenever it loads a session.
ORDERED: Final = Either(
    sqlite="SELECT 1",
    postgresql=f"""SELECT pg_relation_size('events'::regclass) < {FEW} OR EXISTS (SELECT 1 FROM pg_index
        WHERE indrelid = 'events'::regclass AND indisvalid AND indpred IS NULL
        AND (ARRAY(SELECT attname::text FROM unnest(indkey::smallint[]) WITH ORDINALITY AS keys (number, place)
            JOIN pg_attribute ON attrelid = indrelid AND attnum = keys.number ORDER BY place))[1:4]
            = ARRAY['app_name', 'user_id', 'session_id', 'timestamp'])""",
)


# --- Creating ---------------------------------------------------------------------------------------------------------


REAL_TYPES: Final = {"key": "TEXT", "long": "TEXT", "json": "TEXT", "event": "TEXT NOT NULL", "time": "REAL"}
TYPES: Final = Either(
    sqlite={"key": "VARCHAR(128)", "long": "VARCHAR(256)", "json": "TEXT", "event": "TEXT", "time": "DATETIME"},
    postgresql={"key": "VARCHAR(128)", "long": "VARCHAR(256)", "json": "JSONB", "event": "JSONB", "time": "TIMESTAMP"},
)
CREATE_SQLITE: Final = [
    "CREATE TABLE app_states (app_name {key} PRIMARY KEY, state {json} NOT NULL, update_time {time} NOT NULL)",
    """CREATE TABLE user_states (app_name {key} NOT NULL, user_id {key} NOT NULL, state {json} NOT NULL,
        update_time {time} NOT NULL, PRIMARY KEY (app_name, user_id))""",
    """CREATE TABLE sessions (app_name {key} NOT NULL, user_id {key} NOT NULL, id {key} NOT NULL, state {json} NOT NULL,
        create_time {time} NOT NULL, update_time {time} NOT NULL, PRIMARY KEY (app_name, user_id, id))""",
    """CREATE TABLE events (id {key} NOT NULL, app_name {key} NOT NULL, user_id {key} NOT NULL, session_id {key} NOT NULL,
        invocation_id {long} NOT NULL, timestamp {time} NOT NULL, event_data {event},
        PRIMARY KEY (app_name, user_id, session_id, id),
        FOREIGN KEY (app_name, user_id, session_id) REFERENCES sessions (app_name, user_id, id) ON DELETE CASCADE)""",
]
CREATE_DATABASE: Final = [
    *CREATE_SQLITE,
    """CREATE INDEX idx_events_app_user_session_ts_id
        ON events (app_name, user_id, session_id, timestamp DESC, id DESC)""",
    "CREATE TABLE adk_internal_metadata (key {key} NOT NULL PRIMARY KEY, value {long} NOT NULL)",
    "INSERT INTO adk_internal_metadata (key, value) VALUES ('schema_version', '1')",
]


# --- Adopting and releasing -------------------------------------------------------------------------------------------


# Which events are edits. ADK may store NaN, which SQLite's JSON functions refuse.
IS_EDIT: Final = Either(
    postgresql="(event_data #> '{custom_metadata,adkweb}') IS NOT NULL",
    sqlite=if_json("event_data", "json_type(event_data, '$.custom_metadata.adkweb')") + " IS NOT NULL",
)
_INDEXES: Final = {
    "adkweb_sessions_app": ["CREATE INDEX adkweb_sessions_app ON sessions (app_name, update_time, user_id, id)"],
    "adkweb_sessions_user": ["CREATE INDEX adkweb_sessions_user ON sessions (app_name, user_id, update_time, id)"],
    "adkweb_sessions_place": [
        "CREATE INDEX adkweb_sessions_place ON sessions (initial_place) WHERE initial_place IS NOT NULL"
    ],
    "adkweb_sessions_unplaced": [
        "CREATE INDEX adkweb_sessions_unplaced ON sessions (app_name, user_id) WHERE coalesce(initial_place, 0) <= 0"
    ],
}
_ADD_PLACE: Final = "ALTER TABLE sessions ADD COLUMN initial_place bigint"
# Whose sessions were deleted, by whatever program, and the highest position of any of their creations.
_DELETED: Final = [
    """CREATE TABLE adkweb_deleted (app_name text NOT NULL, user_id text NOT NULL, place bigint NOT NULL,
        PRIMARY KEY (app_name, user_id))""",
    "CREATE INDEX adkweb_deleted_place ON adkweb_deleted (place)",
]
# Which `user:` and `app:` keys they had written, and where, but never the values. Numbered in the order in which the
# rows become visible.
_NUMBER: Final = Either(
    sqlite="integer PRIMARY KEY",
    postgresql="bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint",
)
# State from before adopting may be left over from deleted sessions: that can't be known.
LEFT_OF_USERS: Final = """INSERT INTO adkweb_deleted SELECT app_name, user_id, 0 FROM user_states
    WHERE CAST(state AS text) <> '{}'"""
_LEFT_OF_APPS: Final = """INSERT INTO adkweb_deleted SELECT app_name, '', 0 FROM app_states
    WHERE CAST(state AS text) <> '{}'"""
NOT_TWICE: Final = "ON CONFLICT DO NOTHING"
_DELETED_WRITES: Final = """CREATE TABLE adkweb_deleted_writes (number {}, app_name text NOT NULL, user_id text NOT NULL,
            key text NOT NULL, place bigint NOT NULL)"""
# What the source is, and where that was noted: identity.py. Anyone who can read the tables may know it.
_SOURCE: Final = """CREATE TABLE adkweb_source (one integer PRIMARY KEY CHECK (one = 1), id text NOT NULL,
    location text NOT NULL, file text NOT NULL)"""
_KEEP_DELETED: Final = "adkweb_keep_deleted"
_KEEP_TRUNCATED: Final = "adkweb_keep_truncated"
_FOLLOW_ROWIDS: Final = "adkweb_follow_rowids"
# The window after the newest event: its first position, and the last position in use within it.
_WINDOW: Final = f"(SELECT (coalesce(max(rowid), 0) + 1) * {BETWEEN} FROM events)"
_LAST_IN_WINDOW: Final = f"""(SELECT max(place) FROM (SELECT {_WINDOW} AS place
    UNION ALL SELECT max(initial_place) FROM sessions
        WHERE initial_place >= {_WINDOW} AND initial_place < {_WINDOW} + {BETWEEN - 2}
    UNION ALL SELECT max(place) FROM adkweb_deleted WHERE place >= {_WINDOW} AND place < {_WINDOW} + {BETWEEN - 2}
    UNION ALL SELECT max(place) FROM adkweb_deleted_writes
        WHERE place >= {_WINDOW} AND place < {_WINDOW} + {BETWEEN - 2}))"""
_TRIGGER: Final = "adkweb_keep_initial_state"
_KEEP_WRITTEN: Final = "adkweb_keep_written"
_FORGET_WRITTEN: Final = "adkweb_forget_written"
_DONE: Final = [
    f"{_LEFT_OF_APPS} {NOT_TWICE}",
    "CREATE INDEX adkweb_deleted_writes_place ON adkweb_deleted_writes (place)",
]
FIRST: Final = Either(postgresql="events.seq", sqlite="sessions.initial_state")
WRITTEN: Final = Either(postgresql="events.written", sqlite=_KEEP_WRITTEN)
NUMBERED: Final = Either(postgresql="events.seq NOT NULL", sqlite="sessions.initial_state")
STEPS: Final[Either[dict[str, list[str]]]] = Either(
    postgresql={
        # New events take the default, from `start` on; existing ones get smaller numbers, a batch at a time. Agents
        # that do not own the tables draw from the sequence, too.
        "events.seq": [
            "ALTER TABLE events ADD COLUMN seq bigint",
            "CREATE SEQUENCE adkweb_seq START {start} OWNED BY events.seq",
            "GRANT USAGE ON SEQUENCE adkweb_seq TO PUBLIC",
            "ALTER TABLE events ALTER COLUMN seq SET DEFAULT nextval('adkweb_seq')",
        ],
        "sessions.initial_state": ["ALTER TABLE sessions ADD COLUMN initial_state jsonb"],
        _TRIGGER: [
            f"""CREATE OR REPLACE FUNCTION {_TRIGGER}() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN NEW.initial_state := coalesce(NEW.initial_state, NEW.state); RETURN NEW; END $$""",
            f"DROP TRIGGER IF EXISTS {_TRIGGER} ON sessions",
            f"CREATE TRIGGER {_TRIGGER} BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION {_TRIGGER}()",
        ],
        "sessions.initial_place": [_ADD_PLACE],  # after the initial state of sessions without events has been noted
        "adkweb_events_seq": [
            "CREATE UNIQUE INDEX adkweb_events_seq ON events (app_name, user_id, session_id, seq)",
        ],
        # What is new in any session. The index is not on seq itself: PostgreSQL would use it for a session's newest
        # events, too, and skip everyone else's on the way.
        "adkweb_events_tail": [f"CREATE INDEX adkweb_events_tail ON events (({POSTGRESQL.seq}))"],
        **_INDEXES,
        # When each new event was stored. In two steps: with the default, the column would be written into every row.
        "events.written": [
            "ALTER TABLE events ADD COLUMN written timestamptz",
            "ALTER TABLE events ALTER COLUMN written SET DEFAULT clock_timestamp()",
        ],
        "events.seq NOT NULL": [  # after existing events have their numbers
            "ALTER TABLE events ALTER COLUMN seq SET NOT NULL",
            "ALTER TABLE events DROP CONSTRAINT IF EXISTS adkweb_numbered",
        ],
        # PostgreSQL assumes that app, user and session are independent, and so that a session has one event: to find an
        # event by its id, it would search all events of the session.
        "adkweb_events_names": [
            "CREATE STATISTICS adkweb_events_names (dependencies) ON app_name, user_id, session_id FROM events",
        ],
        "adkweb_source": [_SOURCE, "GRANT SELECT ON adkweb_source TO PUBLIC"],
        "adkweb_deleted": _DELETED,
        "adkweb_deleted_writes": [_DELETED_WRITES.format(_NUMBER.postgresql)],
        # Both run as their owner: an agent's user may delete sessions without any permission for these tables.
        _KEEP_DELETED: [
            f"""CREATE OR REPLACE FUNCTION {_KEEP_DELETED}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
                SET search_path FROM CURRENT AS $$ BEGIN
                INSERT INTO adkweb_deleted AS d VALUES (OLD.app_name, OLD.user_id, coalesce(OLD.initial_place, 0))
                ON CONFLICT (app_name, user_id) DO UPDATE SET place = greatest(d.place, EXCLUDED.place);
                INSERT INTO adkweb_deleted_writes (app_name, user_id, key, place)
                SELECT OLD.app_name, OLD.user_id, key, place FROM (
                    SELECT key, seq * {BETWEEN} + {BETWEEN - 1} AS place FROM events, LATERAL jsonb_object_keys(
                        CASE WHEN jsonb_typeof(event_data #> '{{actions,state_delta}}') = 'object'
                        THEN event_data #> '{{actions,state_delta}}' END) AS key
                    WHERE app_name = OLD.app_name AND user_id = OLD.user_id AND session_id = OLD.id
                    UNION ALL SELECT key, OLD.initial_place FROM jsonb_object_keys(
                        CASE WHEN jsonb_typeof(OLD.initial_state) = 'object' THEN OLD.initial_state END) AS key
                    WHERE OLD.initial_place > 0) AS written
                WHERE key LIKE 'user:%' OR key LIKE 'app:%';
                RETURN OLD; END $$""",
            f"DROP TRIGGER IF EXISTS {_KEEP_DELETED} ON sessions",
            f"""CREATE TRIGGER {_KEEP_DELETED} BEFORE DELETE ON sessions
                FOR EACH ROW EXECUTE FUNCTION {_KEEP_DELETED}()""",
        ],
        _KEEP_TRUNCATED: [
            f"""CREATE OR REPLACE FUNCTION {_KEEP_TRUNCATED}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
                SET search_path FROM CURRENT AS $$ BEGIN
                {LEFT_OF_USERS} {NOT_TWICE}; {_LEFT_OF_APPS} {NOT_TWICE}; RETURN NULL; END $$""",
            f"DROP TRIGGER IF EXISTS {_KEEP_TRUNCATED} ON sessions",
            f"""CREATE TRIGGER {_KEEP_TRUNCATED} BEFORE TRUNCATE ON sessions
                FOR EACH STATEMENT EXECUTE FUNCTION {_KEEP_TRUNCATED}()""",
        ],
        # Numbered in the order in which the rows become visible.
        "adkweb_deleted_writes_number": ["CREATE INDEX adkweb_deleted_writes_number ON adkweb_deleted_writes (number)"],
        "adkweb_deleted_writes_place": _DONE,  # after the users' leftover state has been noted
    },
    sqlite={
        "sessions.initial_state": ["ALTER TABLE sessions ADD COLUMN initial_state TEXT"],
        _TRIGGER: [
            f"""CREATE TRIGGER {_TRIGGER} AFTER INSERT ON sessions WHEN NEW.initial_state IS NULL BEGIN
                UPDATE sessions SET initial_state = NEW.state
                WHERE app_name = NEW.app_name AND user_id = NEW.user_id AND id = NEW.id; END"""
        ],
        "sessions.initial_place": [_ADD_PLACE],  # after the initial state of sessions without events has been noted
        # When each new event was stored. In a table of its own, because an UPDATE would write a large event twice. The
        # event's time is beside it, because VACUUM gives the events other rowids.
        "adkweb_written": ["CREATE TABLE adkweb_written (seq integer PRIMARY KEY, stamp blob, at real NOT NULL)"],
        _KEEP_WRITTEN: [
            f"""CREATE TRIGGER {_KEEP_WRITTEN} AFTER INSERT ON events BEGIN
                INSERT OR REPLACE INTO adkweb_written
                VALUES (NEW.rowid, NEW.timestamp, (julianday('now') - 2440587.5) * 86400.0); END"""
        ],
        _FORGET_WRITTEN: [
            f"""CREATE TRIGGER {_FORGET_WRITTEN} BEFORE DELETE ON sessions BEGIN
                DELETE FROM adkweb_written WHERE seq IN (SELECT rowid FROM events
                    WHERE app_name = OLD.app_name AND user_id = OLD.user_id AND session_id = OLD.id); END"""
        ],
        "adkweb_source": [_SOURCE],
        "adkweb_deleted": _DELETED,
        "adkweb_deleted_writes": [_DELETED_WRITES.format(_NUMBER.sqlite)],
        _KEEP_DELETED: [
            f"""CREATE TRIGGER {_KEEP_DELETED} BEFORE DELETE ON sessions BEGIN
                INSERT INTO adkweb_deleted VALUES (OLD.app_name, OLD.user_id, coalesce(OLD.initial_place, 0))
                ON CONFLICT (app_name, user_id) DO UPDATE SET place = max(place, excluded.place);
                INSERT INTO adkweb_deleted_writes (app_name, user_id, key, place)
                SELECT OLD.app_name, OLD.user_id, key, place FROM (
                    SELECT key, events.rowid * {BETWEEN} + {BETWEEN - 1} AS place FROM events, json_each(
                        {if_json("event_data", otherwise="'{}'")}, '$.actions.state_delta')
                    WHERE app_name = OLD.app_name AND user_id = OLD.user_id AND session_id = OLD.id
                    UNION ALL SELECT key, OLD.initial_place FROM json_each(
                        {if_json("OLD.initial_state", otherwise="'{}'")})
                    WHERE OLD.initial_place > 0)
                WHERE typeof(key) = 'text' AND (key GLOB 'user:*' OR key GLOB 'app:*'); END""",
        ],
        # SQLite reuses the highest rowids once their events are gone. What happened after those events moves to the
        # window before the next event, in its old order. Sessions that were made later have higher rowids than the
        # deleted one.
        _FOLLOW_ROWIDS: [
            f"""CREATE TRIGGER {_FOLLOW_ROWIDS} AFTER DELETE ON sessions BEGIN
                UPDATE adkweb_deleted SET place = 0 WHERE place >= {_WINDOW} + {BETWEEN};
                UPDATE adkweb_deleted_writes SET place = {_LAST_IN_WINDOW} + 1 WHERE place >= {_WINDOW} + {BETWEEN - 1};
                UPDATE sessions SET initial_place =
                    min({_LAST_IN_WINDOW} + 1 + max(0, rowid - OLD.rowid), {_WINDOW} + {BETWEEN - 3})
                WHERE initial_place >= {_WINDOW} + {BETWEEN}; END""",
        ],
        "adkweb_deleted_writes_place": _DONE,  # after the users' leftover state has been noted
        **_INDEXES,
        # Every SQLite index ends with the rowid, so this one reads a session's events in append order.
        "adkweb_events_seq": ["CREATE INDEX adkweb_events_seq ON events (app_name, user_id, session_id)"],
    },
)
INDEXES: Final = frozenset(  # without these, adkweb is slower, but not wrong
    name
    for steps in STEPS
    for name, (statement, *_rest) in steps.items()
    if statement.startswith(("CREATE INDEX", "CREATE UNIQUE INDEX", "CREATE STATISTICS"))
)
PRESENT: Final = Either(  # an invalid index of PostgreSQL and a disabled trigger count as missing
    sqlite="""SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger', 'table') UNION ALL
        SELECT tables.name || '.' || columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
        WHERE tables.name IN ('sessions', 'events')""",
    # Only tables of this schema count: a schema after it on the search path may be adopted, too.
    postgresql="""WITH own AS (SELECT oid, relname FROM pg_class
            WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
            AND relname IN ('adkweb_source', 'adkweb_deleted', 'adkweb_deleted_writes'))
        SELECT relname::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
            WHERE indisvalid AND (indrelid IN ('sessions'::regclass, 'events'::regclass)
                OR indrelid IN (SELECT oid FROM own WHERE relname = 'adkweb_deleted_writes')) UNION ALL
        SELECT relname::text FROM own UNION ALL
        SELECT stxname::text FROM pg_statistic_ext WHERE stxrelid = 'events'::regclass UNION ALL
        SELECT tgname::text FROM pg_trigger WHERE tgrelid = 'sessions'::regclass AND tgenabled <> 'D' UNION ALL
        SELECT relname || '.' || attname || unnest(CASE WHEN attnotnull THEN ARRAY['', ' NOT NULL'] ELSE ARRAY[''] END)
            FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
            WHERE attrelid IN ('sessions'::regclass, 'events'::regclass) AND attnum > 0 AND NOT attisdropped""",
)
RELEASE: Final[Either[dict[str, str]]] = Either(  # triggers before the tables that they fill; the first step last
    postgresql={
        _TRIGGER: f"DROP FUNCTION IF EXISTS {_TRIGGER}() CASCADE",  # and the trigger with it
        _KEEP_DELETED: f"DROP FUNCTION IF EXISTS {_KEEP_DELETED}() CASCADE",
        _KEEP_TRUNCATED: f"DROP FUNCTION IF EXISTS {_KEEP_TRUNCATED}() CASCADE",
        "adkweb_deleted": "DROP TABLE IF EXISTS adkweb_deleted",
        "adkweb_deleted_writes": "DROP TABLE IF EXISTS adkweb_deleted_writes",
        "adkweb_source": "DROP TABLE IF EXISTS adkweb_source",
        AGREED: f"DROP TABLE IF EXISTS {AGREED}",
        **{name: f"DROP INDEX IF EXISTS {name}" for name in _INDEXES},
        "adkweb_events_names": "DROP STATISTICS IF EXISTS adkweb_events_names",
        "events.written": "ALTER TABLE events DROP COLUMN IF EXISTS written",
        "sessions.initial_place": "ALTER TABLE sessions DROP COLUMN IF EXISTS initial_place",
        "sessions.initial_state": "ALTER TABLE sessions DROP COLUMN IF EXISTS initial_state",
        "events.seq": "ALTER TABLE events DROP COLUMN IF EXISTS seq",  # with its indexes, its constraint and its sequence
    },
    sqlite={
        _TRIGGER: f"DROP TRIGGER {_TRIGGER}",
        _KEEP_DELETED: f"DROP TRIGGER {_KEEP_DELETED}",
        _KEEP_WRITTEN: f"DROP TRIGGER {_KEEP_WRITTEN}",
        _FORGET_WRITTEN: f"DROP TRIGGER {_FORGET_WRITTEN}",
        "adkweb_written": "DROP TABLE adkweb_written",
        _FOLLOW_ROWIDS: f"DROP TRIGGER {_FOLLOW_ROWIDS}",
        "adkweb_deleted": "DROP TABLE adkweb_deleted",
        "adkweb_deleted_writes": "DROP TABLE adkweb_deleted_writes",
        "adkweb_source": "DROP TABLE adkweb_source",
        AGREED: f"DROP TABLE {AGREED}",
        **{name: f"DROP INDEX {name}" for name in ("adkweb_events_seq", *_INDEXES)},
        "sessions.initial_place": "ALTER TABLE sessions DROP COLUMN initial_place",
        "sessions.initial_state": "ALTER TABLE sessions DROP COLUMN initial_state",
    },
)
