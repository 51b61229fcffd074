# Every figure of two papers on high-dimensional attention:
#     generate -> train -> plot, solve -> plot, with each result cached as HDF5.
# config/ says what to run; README.md says how.
from snakemake.utils import min_version

min_version("9.5")


include: "workflow/rules/configuration.smk"
include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/theory.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/plot.smk"
include: "workflow/rules/scans.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/gallery.smk"


rule all:
    default_target: True
    input:
        lambda wildcards: files_of(*catalogue.figures.values()),
        files_of_overview(),
        VALIDATION,
        VALIDATION_DIGEST,
        VALIDATED,


rule multihead:
    input:
        lambda wildcards: files_of_family("multihead"),


rule singlehead:
    input:
        lambda wildcards: files_of_family("singlehead"),


localrules:
    all,
    multihead,
    singlehead,


report: "workflow/report/workflow.rst"
