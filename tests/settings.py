"""adkweb's settings with a data directory that is thrown away; everything else as users have it."""

import atexit
import os
import shutil
import tempfile

from django.conf import global_settings

if "ADKWEB_DATA_DIR" not in os.environ:  # a test's own subprocess shares its parent's
    os.environ["ADKWEB_DATA_DIR"] = tempfile.mkdtemp(prefix="adkweb-tests-")
    atexit.register(shutil.rmtree, os.environ["ADKWEB_DATA_DIR"], ignore_errors=True)
os.environ.setdefault("ADKWEB_WAIT_SECONDS", "0")  # a test that waits sets its own
worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if worker and os.path.basename(os.environ["ADKWEB_DATA_DIR"]) != worker:  # each its own, for it and its subprocesses
    os.environ["ADKWEB_DATA_DIR"] = os.path.join(os.environ["ADKWEB_DATA_DIR"], worker)
    os.makedirs(os.environ["ADKWEB_DATA_DIR"])
for name in ("ADKWEB_DATABASE_URL", "ADKWEB_SOURCES", "ADKWEB_READ_ONLY"):
    os.environ.pop(name, None)

from adkweb.settings import *  # noqa: E402, F403

# In memory, as Django makes one for its own backend; pytest-django knows that one by name only.
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):  # noqa: F405
    DATABASES["default"]["TEST"] = {"NAME": ":memory:"}  # noqa: F405

# How long a real hash takes, a quarter of a second, is nothing to tests; accounts that servers made are still checked.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher", *global_settings.PASSWORD_HASHERS]
