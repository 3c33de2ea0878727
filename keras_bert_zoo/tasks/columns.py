"""Given columns, read before `fit` and its like see them, where labels are no plain column."""

from keras_bert_zoo.tasks.labels import refuse_class_weight
from keras_bert_zoo.tasks.texts import TextModel


class ReadsColumns:
    """A part of tasks that read given columns in a way of their own; it stands before `Task`.

    Datasets are left as they are.
    """

    # What to do instead of weighing classes; None where `class_weight` has a meaning.
    instead_of_class_weight = None

    def read_columns(self, x, y=None) -> tuple:
        """Turns columns as users give them into such as `TextModel` and Keras take.

        Args:
            x: texts, ids, or a dataset.
            y: labels, or `None`.

        Returns:
            `(x, y)`.
        """
        return x, y

    def fit(self, x=None, y=None, *args, validation_data=None, class_weight=None, **kwargs):
        if self.instead_of_class_weight is not None:
            refuse_class_weight(class_weight, self.instead_of_class_weight)
        if isinstance(validation_data, tuple):
            held_x, held_y, *rest = (*validation_data, None)[: max(2, len(validation_data))]
            validation_data = (*self.read_columns(held_x, held_y), *rest)
        return super().fit(
            *self.read_columns(x, y),
            *args,
            validation_data=validation_data,
            class_weight=class_weight,
            **kwargs,
        )

    fit.__doc__ = TextModel.fit.__doc__

    def evaluate(self, x=None, y=None, *args, **kwargs):
        return super().evaluate(*self.read_columns(x, y), *args, **kwargs)

    evaluate.__doc__ = TextModel.evaluate.__doc__

    def predict(self, x, *args, **kwargs):
        return super().predict(self.read_columns(x)[0], *args, **kwargs)

    predict.__doc__ = TextModel.predict.__doc__
