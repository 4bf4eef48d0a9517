"""The ASGI application, for any ASGI server: `uvicorn adkweb.asgi:application`."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
django.setup()

from sessions_app.http.headers import Headed  # noqa: E402
from sessions_app.http.limits import Limited  # noqa: E402 - models can be imported only after setup
from sessions_app.http.request_id import Identified  # noqa: E402
from sessions_app.live.sockets import application as live  # noqa: E402

from .handler import Handler  # noqa: E402

application = Identified(Headed(Limited(live(Handler()))))
