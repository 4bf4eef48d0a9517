"""The ASGI application, for any ASGI server: `uvicorn adkweb.asgi:application`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adkweb.settings")
application = get_asgi_application()
