# The gallery and the record of a run: made when it ends, well or not, from whatever lies on disk.
# They are no rule's output, so that scales can run side by side and a finished run has nothing to do.
# Needs results/figures/<scale>/; makes index.html and run_config.yaml there, and results/index.html.


onsuccess:
    from finish import finish

    finish(BASE, configuration, workflow)


onerror:
    from finish import finish

    finish(BASE, configuration, workflow)
