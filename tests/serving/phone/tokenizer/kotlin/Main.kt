package transbeam

import java.io.File
import org.json.JSONArray
import org.json.JSONObject

// Answers the questions of each folder: what the tokenizer of Tokenizer.kt makes of them.
fun main(folders: Array<String>) {
    for (folder in folders) {
        val data = File(folder, "phone_tokenizer.json").readText()
        val questions = JSONObject(File(folder, "questions.json").readText())
        val answers = JSONObject()
        try {
            answers.put("texts", answers(Tokenizer(data), questions))
            answers.put("long", long(Tokenizer(data), questions))
            val golden = File(folder, "golden_ids.json")
            if (golden.exists()) {
                val found = Tokenizer(data).disagreements(golden.readText())
                answers.put("disagreements", JSONArray(found))
            }
        } catch (error: BadDataException) {
            answers.put("refused", error.message)
        }
        File(folder, "answers.json").writeText(answers.toString())
    }
}

private fun answers(tokenizer: Tokenizer, questions: JSONObject): JSONArray {
    val length = questions.getInt("length")
    val texts = questions.getJSONArray("texts")
    val answers = JSONArray()
    var before = emptyList<Int>()
    for (number in 0 until texts.length()) {
        val text = texts.getString(number)
        val ids = tokenizer.encode(text)
        val rows = JSONObject()
        refusing(rows, "masks") { tokenizer.encodeWithMasks(text) }
        refusing(rows, "frame") { listed(tokenizer, tokenizer.frame(ids, length)) }
        refusing(rows, "pair") { listed(tokenizer, tokenizer.framePair(before, ids, length)) }
        refusing(rows, "source") { listed(tokenizer, tokenizer.source(ids, length)) }
        rows.put("ids", ids).put("decoded", tokenizer.decode(ids))
        rows.put("prompt", tokenizer.prompt(ids, length))
        answers.put(rows)
        before = ids
    }
    return answers
}

/** Whether a text of so many bytes is refused, and one of a byte more. */
private fun long(tokenizer: Tokenizer, questions: JSONObject): JSONObject {
    val rows = JSONObject()
    val longest = "é".repeat(questions.getInt("longest") / 2)
    for ((name, text) in listOf("longest" to longest, "longer" to "${longest}a")) {
        refusing(rows, name) { tokenizer.encode(text); "read" }
        refusing(rows, "$name with masks") { tokenizer.encodeWithMasks(text); "read" }
    }
    return rows
}

private fun listed(tokenizer: Tokenizer, row: Row) = listOf(
    row.tokenIds, row.paddingMask, row.segmentIds, row.truncated,
    tokenizer.maskedPositions(row, 3),
)

private fun refusing(rows: JSONObject, name: String, answer: () -> Any) {
    try {
        rows.put(name, answer())
    } catch (error: IllegalArgumentException) {
        rows.put(name, "refused")
    }
}
