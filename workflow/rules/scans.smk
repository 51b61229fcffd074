# scans: grids of parameters of the user's own, from the section `scans` of the configuration.
# Needs the experiments of each scan; makes results/scans/<name>.{csv,h5,png}.


for entry in catalogue.scans.values():

    rule:
        name:
            f"scan_{entry.name}"
        input:
            [cached(experiment) for experiment in entry.direct()],
        output:
            csv=f"{entry.stem}.csv",
            h5=f"{entry.stem}.h5",
            png=f"{entry.stem}.png",
        log:
            f"results/logs/scans/{entry.name}.log",
        localrule: True
        conda:
            "../../environment.yml"
        resources:
            mem_mb=1000,
            runtime=10,
        params:
            scan=entry.name,
            section=entry.section_json,
            seed=catalogue.run.seed,
            code=scan_digest(),
            stem=stem_of,
        shell:
            'python "$HDATTN_SCRIPTS"/scan.py {params.scan} --section {params.section:q}'
            " --seed {params.seed} --stem {params.stem:q} 2> {log:q}"


rule scans:
    input:
        lambda wildcards: files_of_scans(),


localrules:
    scans,
