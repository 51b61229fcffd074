# plot: one rule per figure, so that a figure can be asked for by its name.
# Needs the experiments of the figure; makes results/figures/<scale>/<model>/<name>.{pdf,png,csv},
# .drawn.csv, .validation.csv and .json (what it was made from).
# overview: a panel per result of both papers, where the figures that it shows are all selected.
# Needs their CSV files; makes results/figures/<scale>/overview.{pdf,png,csv,drawn.csv,json}.
# What is published stays where a figure cannot be drawn anew, all but the JSON file, by which the
# next run sees that it must be.


for entry in catalogue.figures.values():

    rule:
        name:
            entry.name
        input:
            [cached(experiment) for experiment in entry.direct()],
        output:
            pdf=kept(f"{entry.stem}.pdf"),
            png=report(
                kept(f"{entry.stem}.png"),
                caption=f"../report/{entry.name}.rst",
                category=entry.model,
                labels={"figure": entry.name, "shows": entry.title},
            ),
            csv=kept(f"{entry.stem}.csv"),
            drawn=kept(f"{entry.stem}.drawn.csv"),
            details=f"{entry.stem}.json",
            validation=kept(f"{entry.stem}.validation.csv"),
            more=[kept(f"{entry.stem}.{ending}") for ending in MORE_FORMATS],
        log:
            f"results/logs/plot/{SCALE}/{entry.name}.log",
        benchmark:
            f"results/benchmarks/plot/{SCALE}/{entry.name}.tsv"
        localrule: True
        conda:
            "../../environment.yml"
        resources:
            mem_mb=1000,
            runtime=10,
        params:
            figure=entry.name,
            section=entry.section_json,
            seed=catalogue.run.seed,
            code=plot_digest(entry.name),
            stem=stem_of,
            look=LOOK,
            sheet=SHEET,
        shell:
            'python "$HDATTN_SCRIPTS"/plot.py {params.figure} --section {params.section:q}'
            " --seed {params.seed} --stem {params.stem:q} --look {params.look:q} 2> {log:q}"


if OVERVIEW:

    rule overview:
        input:
            [f"{catalogue.figures[name].stem}.csv" for name in overview.FIGURES],
        output:
            pdf=kept(f"{OVERVIEW}.pdf"),
            png=report(
                kept(f"{OVERVIEW}.png"),
                caption="../report/overview.rst",
                category="overview",
                labels={"figure": "overview", "shows": "A panel per result"},
            ),
            csv=kept(f"{OVERVIEW}.csv"),
            drawn=kept(f"{OVERVIEW}.drawn.csv"),
            details=f"{OVERVIEW}.json",
            more=[kept(f"{OVERVIEW}.{ending}") for ending in MORE_FORMATS],
        log:
            f"results/logs/plot/{SCALE}/overview.log",
        benchmark:
            f"results/benchmarks/plot/{SCALE}/overview.tsv"
        localrule: True
        conda:
            "../../environment.yml"
        resources:
            mem_mb=1000,
            runtime=10,
        params:
            folder=folder_of,
            code=overview_digest(),
            stem=stem_of,
            look=LOOK,
            sheet=SHEET,
        shell:
            'python "$HDATTN_SCRIPTS"/overview.py {params.folder:q}'
            " --stem {params.stem:q} --look {params.look:q} 2> {log:q}"
