def search(job, outputs, inputs, specification, store):
    return outputs, None, ()
