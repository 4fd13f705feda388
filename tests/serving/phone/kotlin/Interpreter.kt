package org.tensorflow.lite

import java.io.BufferedReader
import java.io.File
import java.lang.reflect.Proxy
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import org.json.JSONArray
import org.json.JSONObject

/*
 * Stands in for the class of that name, whose native library is for Android alone: Python's
 * interpreter answers in its place, through a pipe. What it has is as in the real one, so
 * that programs compiled against that one run with this one.
 */
class Interpreter(model: ByteBuffer, options: Options) : AutoCloseable {
    class Options {
        var threads = 1

        fun setNumThreads(number: Int): Options {
            threads = number
            return this
        }
    }

    private val process: Process
    private val lines: BufferedReader
    private val described: JSONObject

    init {
        require(model.isDirect) { "the model has to be in a direct buffer" }
        val file = File.createTempFile("model", ".tflite")
        file.deleteOnExit()
        model.rewind()
        file.writeBytes(ByteArray(model.remaining()).also { model.get(it) })
        val bridge = System.getProperty("bridge").split("\n") + file.path + "${options.threads}"
        process = ProcessBuilder(bridge)
            .redirectError(ProcessBuilder.Redirect.INHERIT).start()
        lines = process.inputStream.bufferedReader()
        described = JSONObject(lines.readLine())
    }

    fun getSignatureInputs(key: String): Array<String> =
        described.getJSONObject(key).keySet().toTypedArray()

    fun getInputTensorFromSignature(name: String, key: String): Tensor {
        val bytes = described.getJSONObject(key).getInt(name)
        return Proxy.newProxyInstance(
            Tensor::class.java.classLoader, arrayOf(Tensor::class.java),
        ) { _, method, _ ->
            check(method.name == "numBytes") { "${method.name} is not there" }
            bytes
        } as Tensor
    }

    fun runSignature(inputs: Map<String, Any>, outputs: Map<String, Any>, key: String) {
        val asked = JSONObject().put("signature", key)
        asked.put("inputs", JSONObject(inputs.mapValues { listed(it.value) }))
        asked.put("outputs", JSONArray(outputs.keys))
        process.outputStream.write((asked.toString() + "\n").toByteArray())
        process.outputStream.flush()
        val answer = JSONObject(lines.readLine() ?: error("the bridge has ended"))
        for ((name, output) in outputs) fill(output, answer.getJSONArray(name))
    }

    override fun close() {
        process.outputStream.close()
        process.waitFor()
    }

    private fun listed(value: Any): Any = when (value) {
        is IntArray -> JSONArray(value.toList())
        // Direct buffers are copied as a whole, wherever they stand, and are left there.
        is FloatBuffer -> {
            require(value.isDirect && value.order() == ByteOrder.nativeOrder())
            JSONArray(List(value.capacity()) { value.get(it) })
        }
        is ByteBuffer -> {
            require(value.isDirect && value.order() == ByteOrder.nativeOrder())
            JSONArray(List(value.capacity()) { value.get(it).toInt() and 255 })
        }
        is Array<*> -> JSONArray(value.map { listed(it!!) })
        else -> error("no input: ${value.javaClass}")
    }

    private fun fill(output: Any, values: JSONArray) {
        when (output) {
            is FloatArray -> {
                require(output.size == values.length()) { "${output.size}, ${values.length()}" }
                for (i in output.indices) output[i] = values.getFloat(i)
            }
            is FloatBuffer -> flat(values).forEach { output.put(it) }
            is Array<*> -> {
                require(output.size == values.length()) { "${output.size}, ${values.length()}" }
                for (i in output.indices) fill(output[i]!!, values.getJSONArray(i))
            }
            else -> error("no output: ${output.javaClass}")
        }
    }

    private fun flat(values: JSONArray): List<Float> =
        values.flatMap { if (it is JSONArray) flat(it) else listOf((it as Number).toFloat()) }
}
