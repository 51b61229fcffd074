# generate: teachers, sample-stream keys and small training sets.
# Needs nothing; makes results/cache/<model>/data/<name>.h5.


rule generate:
    output:
        "results/cache/{kind}/{name}.h5",
    log:
        "results/logs/{kind}/{name}.log",
    benchmark:
        "results/benchmarks/{kind}/{name}.tsv"
    wildcard_constraints:
        kind=one_of("generate"),
    group:
        bundle_of
    conda:
        "../../environment.yml"
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        parameters=parameters_of,
        inputs=input_arguments,
        physics=physics_of,
    shell:
        'python "$HDATTN_SCRIPTS"/compute.py {wildcards.kind} --parameters {params.parameters:q}'
        " --inputs {params.inputs:q} --output {output:q} 2> {log:q}"
