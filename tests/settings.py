"""adkweb's settings with a data directory that is thrown away; everything else as users have it."""

import os
import tempfile

os.environ["ADKWEB_DATA_DIR"] = tempfile.mkdtemp(prefix="adkweb-tests-")
for name in ("ADKWEB_DATABASE_URL", "ADKWEB_SOURCES", "ADKWEB_READ_ONLY"):
    os.environ.pop(name, None)

from adkweb.settings import *  # noqa: E402, F403
