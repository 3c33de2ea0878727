"""The operations of a graph, those within its functions included."""


def functions_of(graph) -> list:
    """The functions of a `GraphDef`."""
    fields = {field.name: part for field, part in graph.ListFields()}
    return list(fields["library"].function) if "library" in fields else []


def operations_in_functions(graph) -> set[str]:
    """Names of the operations within the functions of a `GraphDef`."""
    return {node.op for function in functions_of(graph) for node in function.node_def}
