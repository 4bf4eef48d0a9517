"""The filters above a timeline and the numbers of a session, as SQL over `event_data` for both databases.

Each text is a condition or an expression. Only BY_AUTHOR takes a parameter."""

from typing import Final

from ..domain.description import STOP
from ..sources.dialect import Either, if_json
from ..sources.schema import IS_EDIT


def _has_part(condition: str) -> str:
    return if_json(
        "event_data",
        f"""EXISTS (SELECT 1 FROM json_each(event_data, '$.content.parts')
        WHERE CASE WHEN type = 'object' THEN {condition} END)""",
    )


FILTERS: Final[dict[str, Either[str]]] = {
    "messages": Either(
        postgresql="""jsonb_path_exists(event_data, '$.content.parts[*] ? (exists(@.text) && !(@.thought == true))')""",
        sqlite=_has_part("json_type(value, '$.text') = 'text' AND coalesce(json_extract(value, '$.thought'), 0) <> 1"),
    ),
    "tools": Either(
        postgresql="""jsonb_path_exists(event_data,
            '$.content.parts[*] ? (exists(@.function_call) || exists(@.function_response))')""",
        sqlite=_has_part("coalesce(json_type(value, '$.function_call'), json_type(value, '$.function_response')) > ''"),
    ),
    "state": Either(
        postgresql="coalesce(event_data #> '{actions,state_delta}' <> '{}'::jsonb, false)",
        sqlite=if_json("event_data", "EXISTS (SELECT 1 FROM json_each(event_data, '$.actions.state_delta'))"),
    ),
    # The same rule as in events.Description.failed. A stop is no error, and neither is an "error" in a response to a call
    # that asks a person.
    "errors": Either(
        postgresql=f"""coalesce(event_data ->> 'error_code', '') <> '{STOP}'
            AND (event_data -> 'error_code' IS NOT NULL OR event_data -> 'error_message' IS NOT NULL
            OR jsonb_path_exists(event_data, '$.content.parts[*].code_execution_result ? (!(@.outcome like_regex "OK$"))')
            OR jsonb_path_exists(event_data, '$.content.parts[*].function_response.response.error')
                AND NOT jsonb_path_exists(event_data, '$.actions.requested_tool_confirmations.*')
                AND NOT jsonb_path_exists(event_data, '$.actions.requested_auth_configs.*'))""",
        sqlite=if_json(
            "event_data",
            f"""coalesce(json_extract(event_data, '$.error_code'), '') <> '{STOP}'
            AND (json_extract(event_data, '$.error_code', '$.error_message') <> '[null,null]'
            OR {
                _has_part(
                    "json_type(value, '$.code_execution_result') = 'object' "
                    "AND coalesce(json_extract(value, '$.code_execution_result.outcome'), '') NOT LIKE '%%OK'"
                )
            }
            OR {_has_part("json_type(value, '$.function_response.response.error') > ''")}
                AND NOT EXISTS (SELECT 1 FROM json_each(event_data, '$.actions.requested_tool_confirmations'))
                AND NOT EXISTS (SELECT 1 FROM json_each(event_data, '$.actions.requested_auth_configs')))""",
        ),
    ),
    "edits": IS_EDIT,
}
BY_AUTHOR: Final = Either(
    postgresql="event_data ->> 'author' = %s",
    sqlite=if_json("event_data", "json_extract(event_data, '$.author') = %s"),
)
TOKENS: Final = Either(
    postgresql="""CASE jsonb_typeof(event_data #> '{usage_metadata,total_token_count}') WHEN 'number'
        THEN (event_data #>> '{usage_metadata,total_token_count}')::numeric END""",
    sqlite=if_json("event_data", "json_extract(event_data, '$.usage_metadata.total_token_count')"),
)
