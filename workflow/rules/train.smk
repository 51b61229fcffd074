# train: simulations, one block of instances a job.
# Needs results/cache/<model>/data/*.h5; makes results/cache/<model>/{erm,sgd}/<name>.h5.


use rule generate as train with:
    input:
        inputs_of,
    wildcard_constraints:
        kind=one_of("train"),
