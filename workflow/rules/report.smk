# validate: every theory point against its simulation.
# Needs the figures' validation parts; makes results/figures/<scale>/validation.csv, and
# validation.json (its SHA-256).


rule validation_table:
    input:
        [f"{entry.stem}.validation.csv" for entry in catalogue.figures.values()],
    output:
        table=report(
            VALIDATION,
            caption="../report/validation.rst",
            category="validation",
        ),
        details=VALIDATION_DIGEST,
    log:
        f"results/logs/validation/{SCALE}.log",
    conda:
        "../../environment.yml"
    params:
        folder=folder_of,
        code=plot_digest("validation"),
    shell:
        'python "$HDATTN_SCRIPTS"/validation_table.py {params.folder:q}'
        " --output {output.table:q} 2> {log:q}"


rule validate:
    input:
        VALIDATION,
    output:
        touch(VALIDATED),
    log:
        f"results/logs/validate/{SCALE}.log",
    conda:
        "../../environment.yml"
    params:
        folder=folder_of,
    shell:
        'python "$HDATTN_SCRIPTS"/validate.py {params.folder:q} 2>&1 | tee {log:q}'


use rule validate as validate_family with:
    input:
        lambda wildcards: [
            f"{entry.stem}.validation.csv" for entry in catalogue.family(wildcards.model)
        ],
    output:
        touch(f"{FIGURES}/{SCALE}/{{model}}/.validated"),
    log:
        f"results/logs/validate/{SCALE}-{{model}}.log",
    wildcard_constraints:
        model="multihead|singlehead",


localrules:
    validation_table,
    validate_family,
    validate,
