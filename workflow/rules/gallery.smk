# The gallery: made when a run ends, well or not, from whatever lies on disk. It is no rule's
# output, so that scales can run side by side and a finished run has nothing to do.
# Needs results/figures/<scale>/; makes results/figures/<scale>/index.html and results/index.html.


onsuccess:
    startup.write_gallery(BASE, SCALE, catalogue.figures)


onerror:
    startup.write_gallery(BASE, SCALE, catalogue.figures)
