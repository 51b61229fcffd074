# Reads config/*.yaml of the working directory, else those beside the Snakefile.
# Each is parsed here first, since Snakemake does not say where a mistake lies.
import gc
import sys
from pathlib import Path

# The graph is no garbage: looking for some in it takes a tenth of a run with nothing to do.
gc.set_threshold(200_000, 20, 50)

BASE = Path(workflow.basedir)
sys.path[:0] = [str(BASE / "src"), str(BASE / "workflow")]

import startup
from hdattn.errors import UserError

try:
    configuration_files = startup.configuration_files(BASE)
except UserError as error:
    sys.exit(str(error))

for path in configuration_files:

    configfile: path
